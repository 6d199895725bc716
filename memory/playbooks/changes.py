"""What is to change of a playbook."""

from dataclasses import dataclass, fields, replace

from memory.types import Content, Status, Step


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What to change of a playbook. None leaves a field as it is; an empty value clears it."""

    title: str | None = None
    use_case: str | None = None
    process: str | None = None
    steps: tuple[Step, ...] | None = None
    notes: str | None = None
    category: str | None = None
    tags: tuple[str, ...] | None = None
    status: Status | None = None

    def apply(self, content: Content) -> Content:
        """The content with these changes."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(content, **{name: v for name, v in given.items() if v is not None})
