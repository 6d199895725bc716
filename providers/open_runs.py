"""Tokens worth one run: who holds one, and the account that it opens."""

import threading
import time
from collections.abc import Callable
from secrets import token_urlsafe

from contracts.chat import Usage
from contracts.model_access import AgentUsage, MakeGuard, TokenSpec
from providers.account import Account, RequestRefused
from providers.call_model import Sleep
from providers.run_account import RunAccount, RunTerms
from providers.trajectory import Redact

TOKEN_PREFIX = "hrn-"  # noqa: S105 - what a token begins with, not one

IsDead = Callable[[str], bool]
"""Whether the process of this label is gone for sure."""


def _never(_: str) -> bool:
    return False


class OpenRuns:
    """All open runs and the tokens that they gave out."""

    def __init__(
        self,
        *,
        make_guard: MakeGuard,
        redact: Redact,
        pause: Sleep = time.sleep,
        is_dead: IsDead = _never,
    ) -> None:
        self._make_guard = make_guard
        self._is_over = is_dead
        self._pause = pause
        self._redact = redact
        self._runs: dict[str, RunAccount] = {}
        self._accounts: dict[str, Account] = {}
        self._lock = threading.Lock()

    def open_run(self, terms: RunTerms) -> None:
        """Begin a run; one of the same id that was never closed is closed."""
        self.close_run(terms.run_id)
        with self._lock:
            self._runs[terms.run_id] = RunAccount(terms, self._redact, self._pause)

    def open_token(self, run_id: str, terms: TokenSpec) -> str:
        """A new token of this run.

        Raises:
            Refused: the run is not open.
        """
        guard = self._make_guard(run_id, terms)
        token = TOKEN_PREFIX + token_urlsafe(24)
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                raise RequestRefused(f"run {run_id!r} is not open here", kind="token", status=404)
            self._accounts[token] = Account(terms=terms, run=run, guard=guard)
            run.secrets.append(token)
        return token

    def account(self, token: str) -> Account:
        """The account that this token opens.

        Raises:
            Refused: no token, or one of a run that is over.
        """
        account = self._accounts.get(token)
        if account is None or account.run.ends_at < time.monotonic():
            raise RequestRefused(
                "no run has this token: its run or its node is over, or the gateway was "
                "started anew",
                kind="token",
                status=401,
            )
        return account

    def close_token(self, token: str) -> AgentUsage:
        """End a token and give what was spent; nothing when it is closed already."""
        with self._lock:
            account = self._accounts.pop(token, None)
        if account is None:
            return AgentUsage()
        account.closed.set()
        return account.spent()

    def close_run(self, run_id: str) -> Usage:
        """End a run with all its tokens and give what it spent in all."""
        with self._lock:
            run = self._runs.pop(run_id, None)
            held = [token for token, a in self._accounts.items() if a.run is run]
            for token in held:
                self._accounts.pop(token).closed.set()
        if run is None:
            return Usage()
        run.trajectory.close()
        return run.spent()

    def reap(self) -> None:
        """Close the runs whose time or whose process is over."""
        now = time.monotonic()
        for run_id, run in list(self._runs.items()):
            if run.ends_at < now or self._is_over(run.terms.process):
                self.close_run(run_id)

    @property
    def count(self) -> int:
        return len(self._runs)
