"""What is known of a project: how it installs and how it tests itself."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

ProjectKind = Literal["python", "node", "make", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Project:
    """How a project installs and tests itself. `why` says what that was read from.

    `install=None`: nothing to install. `test=None`: no way to test was found. `env` goes
    with both. `install_optional`: the tests can run from the source tree when it fails.
    """

    kind: ProjectKind
    why: str
    install: tuple[str, ...] | None = None
    test: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    install_optional: bool = False

    @property
    def fact(self) -> str:
        """What later nodes go by, whatever becomes of the files."""
        return json.dumps([self.kind, self.why, self.test, self.install])

    def __str__(self) -> str:
        """Three lines for people and prompts; the commands can be pasted into a shell."""
        return (
            f"{self.kind} project: {self.why}\n"
            f"install: {self._line(self.install)}\ntest: {self._line(self.test)}"
        )

    def _line(self, argv: tuple[str, ...] | None) -> str:
        if argv is None:
            return "-"
        return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in self.env.items()), shlex.join(argv)])
