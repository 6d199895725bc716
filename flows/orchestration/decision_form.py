"""The typed form of a suspended flow run: two fields about one approval that waits."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from prefect.input import RunInput
from pydantic import ConfigDict, Field, create_model

from flows.audit.approval_text import form_text
from policy.types import Approval, ApprovalStatus

_APPROVE, _DENY = "approve", "deny"


class Decide(RunInput):
    """What a person says of one approval; `read` understands its fields."""

    model_config = ConfigDict(extra="allow")  # of others that were decided elsewhere


def form(approval: Approval, more: int) -> type[Decide]:
    """The form about this one, after which so many more wait; who leaves it as it is denies."""
    fields = {name: (kind, field) for name, kind, field in _fields(approval)}
    made = create_model("Decide", __base__=Decide, **fields)  # type: ignore[call-overload]  # known only now
    described: type[Decide] = made.with_initial_data(description=form_text(approval, more))
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


def _fields(approval: Approval) -> Iterator[tuple[str, object, object]]:
    name = approval.id
    if approval.is_question:
        words = Field(title="Your answer", min_length=1, max_length=20_000, pattern=r"\S")
        yield f"answer_{name}", str, words
        yield f"refuse_{name}", bool, Field(default=False, title="I will not answer")
    else:
        yield (
            f"answer_{name}",
            Literal["deny", "approve"],
            Field(default=_DENY, title="This one action"),
        )
        yield f"reason_{name}", str, Field(default="", title="Why", max_length=2_000)
