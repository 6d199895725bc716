"""The operation `fetch_meeting_notes`: notes and calendar entries of the workspace on a topic."""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated

from contracts.entity import Label
from contracts.json import Json, text_at
from contracts.sandbox import Command, Sandbox
from policy.authority import FileLabels
from policy.errors import OperationFailed
from policy.plan.registry import Arguments, Operation, operation

NOTES = ("*.md", "*.txt", "*.org", "*.rst")
CALENDAR = "*.ics"
_MAX_FILES = 50
_FILE_LIMIT = 1024 * 1024


def meeting_operation(
    sandbox: Callable[[], Sandbox], labels: FileLabels, *, place: str
) -> Operation:
    """Return the operation; `sandbox` opens the sandbox when it runs."""

    def note_labels(_: Arguments, result: Json) -> Label | Sequence[Label]:
        if not isinstance(result, (list, tuple)):
            return labels.all_labels
        return [labels.label_for(text_at(one, "file")) for one in result]

    @operation(effect="read", requires=["READ_FILE"], label_of=note_labels, place=place)
    def fetch_meeting_notes(topic: Annotated[str, "query"]) -> Json:
        """Give notes and calendar entries that hold every word of a topic, as a list of file,
        title and text."""
        words = topic.casefold().split()
        opened = sandbox()
        found: list[Json] = []
        for path in _files_with(opened, words)[:_MAX_FILES]:
            text = opened.read_file(path, _FILE_LIMIT).decode("utf-8", "replace")
            if path.casefold().endswith(CALENDAR[1:]):
                found += [{"file": path, **one} for one in calendar_entries(text, words)]
            else:
                title = posixpath.splitext(posixpath.basename(path))[0]
                found.append({"file": path, "title": title, "text": text})
        if not found:
            kinds = ", ".join((*NOTES, CALENDAR))
            raise OperationFailed(f"no notes on {topic!r} in the files {kinds} of the workspace")
        return found

    return fetch_meeting_notes


def calendar_entries(text: str, words: Sequence[str]) -> Iterator[Mapping[str, Json]]:
    """Yield title, start and text of each event of an iCalendar file that holds all the words."""
    unfolded = re.sub(r"\r?\n[ \t]", "", text)
    for event in re.findall(r"BEGIN:VEVENT(.*?)END:VEVENT", unfolded, re.DOTALL):
        # A property may have parameters: DTSTART;TZID=Europe/Berlin:20250520T100000
        lines = re.findall(r"^([A-Z-]+)(?:;[^:\n]*)?:(.*?)\r?$", event, re.MULTILINE)
        fields = {name: _unescaped(value) for name, value in reversed(lines)}
        title, about = fields.get("SUMMARY", ""), fields.get("DESCRIPTION", "")
        if all(word in f"{title}\n{about}".casefold() for word in words):
            yield {"title": title, "start": fields.get("DTSTART", ""), "text": about}


def _files_with(sandbox: Sandbox, words: Sequence[str]) -> list[str]:
    """Return the note and calendar files with every word in their path or text."""
    named = [part for pattern in (*NOTES, CALENDAR) for part in ("-o", "-iname", pattern)][1:]
    paths = _paths(sandbox, "find", ".", "-path", "./.git", "-prune", "-o", "-type", "f", "(",
                   *named, ")", "-print0")  # fmt: skip
    for word in words:
        texts = [f"--include={pattern}" for pattern in (*NOTES, CALENDAR)]
        holding = _paths(sandbox, "grep", "-rlZIisF", "--exclude-dir=.git", *texts, "-e", word, ".")
        paths = {path for path in paths if path in holding or word in path.casefold()}
    return sorted(paths)


def _paths(sandbox: Sandbox, *argv: str) -> set[str]:
    found = sandbox.exec(Command(argv=argv, output_limit=_FILE_LIMIT)).stdout.decode(
        "utf-8", "replace"
    )
    return {posixpath.normpath(path) for path in found.split("\0") if path}


def _unescaped(value: str) -> str:
    return re.sub(r"\\([\\;,nN])", lambda m: "\n" if m[1] in "nN" else m[1], value)
