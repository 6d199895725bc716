"""What the operator lets be approved without a person (pure)."""

from dataclasses import dataclass

from memory.curation.proposals import Story, gives_order
from memory.notes.types import DESCRIPTIVE, Entry, NoteContent
from memory.scope import Scope


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The operator's rule. By default it approves nothing."""

    confidence: int | None = None
    """0 to 100. Approve what the curator is at least so sure of, if it describes and gives no
    order, has no flag, and is for nobody else than the person or company that asked for the run.
    None: a person approves everything."""

    def approves(self, entry: Entry, story: Story) -> bool:
        """Whether the entry, which was compared with all others, needs no person."""
        sure = self.confidence is not None and (entry.confidence or 0) >= self.confidence
        describes = not isinstance(entry, NoteContent) or entry.type in DESCRIPTIVE
        harmless = describes and not gives_order(entry) and not entry.flags
        return sure and harmless and _stays_at_home(entry.scope, story)


NO_RULE = Rule()


def _stays_at_home(scope: Scope, story: Story) -> bool:
    """Whether a person asked for the run, and nobody is told who could not have seen it."""
    viewer = story.viewer
    if story.intent_from:
        return False
    if viewer.user is not None:
        return scope.user == viewer.user
    return viewer.company is not None and scope.company == viewer.company
