"""The gateway's own process: `python -m flows.host.gateway_process PORT SECRET_FILE HOME`."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from contracts.model_access import INTERNAL_AGENT, TokenSpec
from contracts.tool import Allowed, Guard
from flows.audit.agent_approvals import cached_approvals
from flows.config.environment import environment
from flows.services.daemon import successor_marker
from nodes.agents.allowed_tools import AGENT_TOOLS, allowed_tools_guard
from nodes.text import make_redactor
from policy.guard.approval_guard import ApprovalGuard
from policy.guard.guard import AgentGuard, combined_guard
from providers.gateway import gateway_app
from providers.models import check_model
from providers.open_runs import OpenRuns
from providers.serve import serve
from sandbox.process_label import has_exited

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals

_LOOK_S = 2.0
"""How often it looks for runs that are over."""

_LAST_LOOKS = 3
"""So often in a row nobody uses it before it makes way for its successor: somebody may have
been told of it just before."""


def main(port: str, secret_file: Path, home: Path) -> None:
    """Serve until SIGTERM, or until its home is somebody else's or its successor's alone."""
    secret = secret_file.read_text()
    ledger = OpenRuns(
        make_guard=partial(guard_for_terms, approvals=cached_approvals(home)),
        redact=make_redactor(environment()),
        is_dead=has_exited,
    )
    threading.Thread(target=_look, args=(ledger, secret_file, secret), daemon=True).start()
    app = gateway_app(ledger, secret=secret, check_model=lambda m: check_model(m, environment()))
    serve(app, f"127.0.0.1:{port}")


def guard_for_terms(
    run_id: str, terms: TokenSpec, *, approvals: "Callable[[], Approvals] | None" = None
) -> Guard:
    """What a token's agent may do: the tools that its node allows, within the run's bounds.

    What the bounds deny may be put to a person, through `approvals`.
    """
    if terms.agent == INTERNAL_AGENT:
        return lambda _: Allowed()
    allowed = allowed_tools_guard(terms.allowed_tools, terms.agent)
    if terms.bounds is None:
        return allowed
    guard = AgentGuard(terms.bounds, AGENT_TOOLS[terms.agent].get, terms.read)
    if approvals is None or not terms.bounds.ask:
        return combined_guard((allowed, guard))
    redact = make_redactor(environment())
    asking = ApprovalGuard(
        guard=guard, approvals=approvals, run_id=run_id, terms=terms, redact=redact
    )
    return combined_guard((allowed, asking))


def _look(ledger: OpenRuns, secret_file: Path, secret: str) -> None:
    has_successor = successor_marker(secret_file.parent, "gateway", os.getpid())
    has_successor.unlink(missing_ok=True)  # it told another, who had this pid
    unused = 0
    while _is(secret_file, secret) and unused < _LAST_LOOKS:
        ledger.close_abandoned()
        unused = unused + 1 if has_successor.exists() and not ledger.count else 0
        sleep(_LOOK_S)
    has_successor.unlink(missing_ok=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _is(file: Path, text: str) -> bool:
    try:
        return file.read_text() == text
    except OSError:
        return False


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
