"""What is to change of a playbook."""

from dataclasses import dataclass, fields, replace

from memory.types import PlaybookContent, PlaybookStatus, PlaybookStep


@dataclass(frozen=True, kw_only=True)
class PlaybookChanges:
    """What to change of a playbook. None leaves a field as it is; an empty value clears it."""

    title: str | None = None
    use_case: str | None = None
    process: str | None = None
    steps: tuple[PlaybookStep, ...] | None = None
    notes: str | None = None
    category: str | None = None
    tags: tuple[str, ...] | None = None
    status: PlaybookStatus | None = None

    def apply(self, content: PlaybookContent) -> PlaybookContent:
        """The content with these changes."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(content, **{name: v for name, v in given.items() if v is not None})
