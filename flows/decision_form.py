"""The typed form of a suspended flow run: two fields for each approval that waits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from prefect.input import RunInput
from pydantic import ConfigDict, Field, create_model

from flows.approval_text import form_text
from policy.types import Approval, ApprovalStatus

_APPROVE, _DENY = "approve", "deny"


class Decide(RunInput):
    """What a person says of all that waits; `read` understands its fields."""

    model_config = ConfigDict(extra="allow")  # of a form in which some were decided meanwhile


def form(waiting: Sequence[Approval]) -> type[Decide]:
    """The form about these; who leaves a field as it is denies."""
    fields: dict[str, tuple[object, object]] = {}
    for number, approval in enumerate(waiting, start=1):
        which = f"{number}. " if len(waiting) > 1 else ""
        fields |= {name: (kind, field) for name, kind, field in _fields(approval, which)}
    made = create_model("Decide", __base__=Decide, **fields)  # type: ignore[call-overload]  # known only now
    described: type[Decide] = made.with_initial_data(description=form_text(waiting))
    return described


def filled(approvals: Iterable[Approval]) -> dict[str, object]:
    """What a form holds in which somebody said what was decided about these."""
    found: dict[str, object] = {}
    for one in approvals:
        yes = one.status in ("approved", "used")
        if one.is_question:
            found |= {f"answer_{one.id}": one.reason or "no answer", f"refuse_{one.id}": not yes}
        else:
            answer = _APPROVE if yes else _DENY
            found |= {f"answer_{one.id}": answer, f"reason_{one.id}": one.reason}
    return found


def read(said: Mapping[str, object], approval: Approval) -> tuple[ApprovalStatus, str]:
    """What was said of this one, and why or in which words."""
    answer = str(said[f"answer_{approval.id}"])
    if approval.is_question:
        return ("denied" if said[f"refuse_{approval.id}"] else "approved"), answer
    why = str(said[f"reason_{approval.id}"])
    return ("approved" if answer == _APPROVE else "denied"), why


def _fields(approval: Approval, which: str) -> Iterator[tuple[str, object, object]]:
    name = approval.id
    if approval.is_question:
        words = Field(title=f"{which}Your answer", min_length=1, max_length=20_000, pattern=r"\S")
        yield f"answer_{name}", str, words
        yield f"refuse_{name}", bool, Field(default=False, title=f"{which}I will not answer")
    else:
        what = f"{which}{approval.op}" if which else "This one action"
        yield f"answer_{name}", Literal["deny", "approve"], Field(default=_DENY, title=what)
        yield f"reason_{name}", str, Field(default="", title=f"{which}Why", max_length=2_000)
