"""The runs that are open at the gateway, and their tokens."""

import threading
import time
from collections.abc import Callable
from secrets import token_urlsafe

from contracts.chat import Usage
from contracts.model_access import AgentUsage, MakeGuard, TokenSpec
from providers.account import Account, RequestRefused, RunAccount
from providers.call_model import Sleep
from providers.gateway_api import RunTerms
from providers.trajectory import Redact

TOKEN_PREFIX = "hrn-"  # noqa: S105 - not a token, only what one begins with

IsDead = Callable[[str], bool]
"""Returns True if the process with this label has exited for sure."""


class OpenRuns:
    """All open runs and their tokens. Thread-safe."""

    def __init__(
        self,
        *,
        make_guard: MakeGuard,
        redact: Redact,
        sleep: Sleep = time.sleep,
        is_dead: IsDead = lambda _: False,
    ) -> None:
        self._make_guard = make_guard
        self._is_dead = is_dead
        self._sleep = sleep
        self._redact = redact
        self._runs: dict[str, RunAccount] = {}
        self._accounts: dict[str, Account] = {}
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """Number of open runs."""
        return len(self._runs)

    def open_run(self, terms: RunTerms) -> None:
        """Open a run; an earlier one with the same id is closed."""
        self.close_run(terms.run_id)
        with self._lock:
            self._runs[terms.run_id] = RunAccount(terms, self._redact, self._sleep)

    def close_run(self, run_id: str) -> Usage:
        """Close a run with all its tokens and return its total cost."""
        with self._lock:
            run = self._runs.pop(run_id, None)
            tokens = [token for token, a in self._accounts.items() if a.run is run]
            for token in tokens:
                self._accounts.pop(token).closed.set()
        if run is None:
            return Usage()
        run.trajectory.close()
        return run.usage

    def close_abandoned(self) -> None:
        """Close the runs whose time is over or whose process has exited."""
        now = time.monotonic()
        for run_id, run in list(self._runs.items()):
            if run.ends_at < now or self._is_dead(run.terms.process):
                self.close_run(run_id)

    def open_token(self, run_id: str, spec: TokenSpec) -> str:
        """Return a new token of a run.

        Raises:
            RequestRefused: the run is not open.
        """
        guard = self._make_guard(run_id, spec)
        token = TOKEN_PREFIX + token_urlsafe(24)
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                raise RequestRefused(f"run {run_id!r} is not open here", kind="token", status=404)
            self._accounts[token] = Account(spec=spec, run=run, guard=guard)
            run.secrets.append(token)
        return token

    def close_token(self, token: str) -> AgentUsage:
        """Close a token and return what was spent; nothing if it was closed before."""
        with self._lock:
            account = self._accounts.pop(token, None)
        if account is None:
            return AgentUsage()
        account.closed.set()
        return account.current_usage()

    def account(self, token: str) -> Account:
        """Return the account of a token.

        Raises:
            RequestRefused: the token is unknown, or its run is over.
        """
        account = self._accounts.get(token)
        if account is None or account.run.ends_at < time.monotonic():
            message = (
                "no open run has this token: its run or its node is over, or the gateway was "
                "restarted"
            )
            raise RequestRefused(message, kind="token", status=401)
        return account
