"""Questions to the user at the terminal, on stderr, one at a time."""

import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from app.terminal.identity import user_name
from app.terminal.output import print_message
from contracts.errors import ApprovalDecided
from flows.audit.question_text import full_text
from nodes.text import escape_invisible
from policy.plan.approvals import Approvals
from policy.types import ApprovalReply, ApprovalRequest, Approver

_one_question = threading.Lock()


def confirm(question: str) -> bool:
    """Ask a yes-or-no question; every reply but `y` and `yes` means no."""
    return _ask(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def terminal_prompt() -> Callable[[str], str] | None:
    """Return a function that asks the user for a text, or None without a terminal."""
    if not sys.stdin.isatty():
        return None
    return lambda question: _ask(f"{escape_invisible(question)}\n> ")


def terminal_approver(approvals: Approvals) -> Approver:
    """Return an approver that records each request and also asks the user at the terminal."""

    def ask(request: ApprovalRequest) -> ApprovalReply:
        reply = approvals.ask(request)
        if reply.status != "waiting":
            return reply
        pending = approvals.list(run_id=request.run_id, pending=True)
        found = next((one for one in pending if one.action == request.action), None)
        if found is not None:  # None if somebody decided just now, or if the request expired
            with _one_question:
                for line in full_text(found):
                    print_message(f"  {line}")
                agreed = confirm("allow exactly this action, once?")
            with suppress(ApprovalDecided):
                approvals.decide(found.id, "approved" if agreed else "denied", by=user_name())
        return approvals.ask(request)

    return Approver(ask=ask, consume=approvals.consume)


def _ask(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()
