"""The process of the gateway: `python -m flows.host.gateway_process PORT SECRET_FILE HOME`."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from contracts.chat import model_names
from contracts.errors import ModelUnavailable, OptionInvalid
from contracts.model_access import INTERNAL_AGENT, TokenSpec
from contracts.tool import Allowed, Guard
from flows.audit.event_log import cached_approvals
from flows.config.environment import environment
from flows.config.settings import load_settings
from flows.services.daemon import successor_marker
from nodes.agents.allowed_tools import allowed_tools_guard
from nodes.agents.table import tool_word
from nodes.text import make_redactor
from policy.guard.approval_guard import ApprovalGuard
from policy.guard.guard import AgentGuard, combined_guard
from providers.gateway import gateway_app, serve
from providers.models import check_key, check_model, litellm_import, needs_litellm
from providers.open_runs import OpenRuns
from sandbox.process_label import has_exited

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals

_POLL_S = 2.0
"""Seconds between two checks for runs whose process has died, and for a successor."""

_IDLE_POLLS = 3
"""Polls without a run before a replaced gateway ends: a run may just have got its URL."""


def main(port: str, secret_file: Path, home: Path) -> None:
    """Serve until SIGTERM, until the home has another secret, or until a successor has all runs."""
    secret = secret_file.read_text()
    settings = load_settings()  # which may name agents
    if _will_need_litellm(settings.model):
        litellm_import()
    open_runs = OpenRuns(
        make_guard=partial(guard_for_terms, approvals=cached_approvals(home)),
        redact=make_redactor(environment()),
        is_dead=has_exited,
    )
    threading.Thread(target=_watch, args=(open_runs, secret_file, secret), daemon=True).start()
    app = gateway_app(open_runs, secret=secret, check_model=lambda m: check_model(m, environment()))
    serve(app, f"127.0.0.1:{port}")


def _will_need_litellm(models: str) -> bool:
    """Return False if the settings' models have no key here: a run must name another one."""
    with suppress(ModelUnavailable, OptionInvalid):
        for name in model_names(models):
            check_key(name, environment())
        return needs_litellm(models)
    return False


def guard_for_terms(
    run_id: str, terms: TokenSpec, *, approvals: "Callable[[], Approvals] | None" = None
) -> Guard:
    """Return the guard for a token: the tools that the node allows, within the run's bounds.

    A call that the bounds deny may become an approval, through `approvals`.
    """
    if terms.agent == INTERNAL_AGENT:
        return lambda _: Allowed()
    allowed = allowed_tools_guard(terms.allowed_tools, terms.agent)
    if terms.bounds is None:
        return allowed
    guard = AgentGuard(terms.bounds, partial(tool_word, terms.agent), terms.read)
    if approvals is None or not terms.bounds.ask:
        return combined_guard((allowed, guard))
    redact = make_redactor(environment())
    approval_guard = ApprovalGuard(
        guard=guard, approvals=approvals, run_id=run_id, terms=terms, redact=redact
    )
    return combined_guard((allowed, approval_guard))


def _watch(open_runs: OpenRuns, secret_file: Path, secret: str) -> None:
    marker = successor_marker(secret_file.parent, "gateway", os.getpid())
    marker.unlink(missing_ok=True)  # of an earlier process with this pid
    unused = 0
    # A deleted or replaced home must not leave a process with model keys behind.
    while _contains(secret_file, secret) and unused < _IDLE_POLLS:
        open_runs.close_abandoned()
        unused = unused + 1 if marker.exists() and not open_runs.count else 0
        sleep(_POLL_S)
    marker.unlink(missing_ok=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _contains(file: Path, text: str) -> bool:
    try:
        return file.read_text() == text
    except OSError:
        return False


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
