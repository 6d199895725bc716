"""Tools a model may call, and the decision about one call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool as the model sees it; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call that a model asks for. `arguments` is the model's own text: JSON if we are lucky."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True)
class Denied:
    """The call may not go ahead. `reason` is written for the model and for a person.

    A rule of the policy also says which it was (`C4`), which argument breaks it (`/to`), by
    which tags, and by which way those came there, the origin first. `approval` is the id of the
    question that waits for a person; `answer` is what is said of that, or by whom it is refused.
    `also` are the other rules that the same call breaks: whoever lifts one lifts them all.
    """

    reason: str
    rule: str = ""
    argument: str = ""
    tags: frozenset[str] = frozenset()
    provenance: tuple[str, ...] = ()
    approval: str = ""
    approval_note: str = ""
    others: tuple["Denied", ...] = ()

    @property
    def denials(self) -> tuple["Denied", ...]:
        """This one, and the others."""
        return (self, *self.others)

    @property
    def message(self) -> str:
        """All that the model is told."""
        reasons = "; ".join(dict.fromkeys(one.reason for one in self.denials))
        return f"{reasons}. {self.approval_note}" if self.approval_note else reasons


@dataclass(frozen=True)
class Allowed:
    """The call may go ahead; `despite` is the denial that a person lifted for it, this once."""

    lifted_denial: Denied | None = None


Decision = Allowed | Denied
Guard = Callable[[ToolCall], Decision]
