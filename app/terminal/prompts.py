"""Asks the person at the terminal, on stderr, one question at a time."""

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from app.terminal.identity import user_name
from app.terminal.output import print_message
from contracts.errors import ApprovalDecided
from nodes.text import escape_invisible

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals
    from policy.types import ApprovalReply, ApprovalRequest, Approver

_turn = threading.Lock()


def confirm(question: str) -> bool:
    """Whether the person says yes; anything else is no."""
    return _said(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def terminal_prompt() -> Callable[[str], str] | None:
    """Asks for the person's own words; None without a terminal."""
    return (
        (lambda question: _said(f"{escape_invisible(question)}\n> "))
        if sys.stdin.isatty()
        else None
    )


def terminal_approver(approvals: "Approvals") -> "Approver":
    """Keeps every question as `harness approvals` does, and asks it here at once."""
    from policy.types import Approver

    def ask(question: "ApprovalRequest") -> "ApprovalReply":
        from flows.audit.approval_text import full_text

        answer = approvals.ask(question)
        if answer.status != "waiting":
            return answer
        waiting = approvals.list(run_id=question.run_id, pending=True)
        found = next((one for one in waiting if one.action == question.action), None)
        if found is not None:  # else somebody decided just now, or it expired
            with _turn:
                for line in ("stopped: CAPABILITY_VIOLATION", *full_text(found)):
                    print_message(f"  {line}")
                agreed = confirm("do exactly this, once?")
            with suppress(ApprovalDecided):
                approvals.decide(found.id, "approved" if agreed else "denied", by=user_name())
        return approvals.ask(question)

    return Approver(ask=ask, consume=approvals.consume)


def _said(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()
