"""Results by test in the text that test runners print.

`_LINES` is a table: a runner, and the line that it prints for a test. `name` is the test, `word`
the result; without a word the test failed. The text is untrusted: it is read line by line, each
line shortened, so that no pattern takes more than linear time.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from contracts.json import as_mapping
from nodes.projects.cases import MAX_CASES, Case, Cases, CaseStatus, collect
from nodes.text import strip_control_characters

_MAX_LINE = 1_000
_MAX_JSON_LINE = 16_384
_MAX_MESSAGE_LINES = 200

_CROSSES = "✖✕✗\u00d7"
_WORDS: dict[CaseStatus, tuple[str, ...]] = {
    "passed": ("ok", "PASS", "pass", "Passed", "OK", ".", "✔", "✓", "√", "XFAIL"),
    "failed": (
        "not ok", "FAIL", "fail", "FAILED", "Failed", "ERROR", "F", "E", *_CROSSES,
        "XPASS", "Dubious", "***", "unexpected success",
    ),
    "skipped": (
        "SKIP", "skip", "SKIPPED", "Skipped", "skipped", "ignored", "S", "﹣", "expected failure",
    ),
}  # fmt: skip
_STATUS = {word: status for status, words in _WORDS.items() for word in words}
_SCORE = r"(?: \.{2,} \d+/\d+)?"
"""How many tests of a file passed, which changes."""
_TAP_BEGINS = re.compile(r" +TAP version \d+$")
_TIME = r"(?: +\(?\d[\d.]*\s?m?s\)?)?"


class _Line(NamedTuple):
    runner: str
    pattern: re.Pattern[str]


_PYTHON_TEST = r"\w+ \([\w.<>]+\)"
_LINES = tuple(
    _Line(runner, re.compile(pattern))
    for runner, pattern in (
        ("cargo", r"test (?P<name>.+?) \.\.\. (?P<word>ok|FAILED|ignored)\b"),
        ("ctest", r" *\d+/\d+ +Test +#\d+: (?P<name>\S+) \.+ *(?P<word>Passed|\*\*\*)"),
        ("googletest", r"\[ *(?P<word>OK|FAILED|SKIPPED) *\] (?P<name>[^\s.]+\.[^\s,]+)"),
        ("automake", r"(?P<word>PASS|FAIL|XFAIL|XPASS|SKIP|ERROR): (?P<name>\S.*)$"),
        ("prove", r"(?P<name>\S+\.t) \.+ (?P<word>ok|skipped|Dubious|Failed)\b"),
        ("jest", r"(?P<word>PASS|FAIL) +(?P<name>\S+\.[cm]?[jt]sx?\b)"),
        ("jest", r" *● (?P<name>.+ \u203a .+)$"),
        ("check marks", rf" *(?P<word>[✔✓√{_CROSSES}﹣]) +(?P<name>\S.*?){_TIME}(?: # SKIP.*)?$"),
        ("check marks", r" +\d+\) (?P<name>\S.*[^:])$"),
        ("minitest", r"(?P<name>\S+#\S+) = [\d.]+ s = (?P<word>[.FES])$"),
        ("phpunit", r"\d+\) (?P<name>[\w\\]+::\w+.*)$"),
        ("dotnet", r" +(?P<word>Passed|Failed|Skipped) (?P<name>\S.*?) \[[^\]]+\]$"),
        ("pytest", r"(?P<word>FAILED|ERROR) (?P<name>\S+\.py(?:::\S+)?)(?: - .*)?$"),
        ("unittest", rf"(?P<name>{_PYTHON_TEST}) \.\.\. .*?"
                     r"(?P<word>ok|FAIL|ERROR|skipped|expected failure|unexpected success)\b"),
        ("tap", rf" *(?P<word>ok|not ok)\b *\d* *-? *(?P<name>[^#]*?){_SCORE}"
                r"(?: +# (?:time=.*|(?P<aside>SKIP|TODO|skip|todo)\b.*))?$"),
    )
)  # fmt: skip


class _Section(NamedTuple):
    """Where a runner prints the details of a failure; `fence` lines are left out."""

    runner: str
    begin: re.Pattern[str]
    fence: str
    end: re.Pattern[str]


_SECTIONS = (
    _Section(
        "cargo",
        re.compile(r"---- (?P<name>.+?) stdout ----$"),
        "",
        re.compile(r"---- |failures:$"),
    ),
    _Section(
        "unittest",
        re.compile(rf"(?:FAIL|ERROR): (?P<name>{_PYTHON_TEST})"),
        "-" * 70,
        re.compile(r"={70}$|Ran \d+ tests? in "),
    ),
    _Section(
        "tap",
        re.compile(rf" *not ok\b *\d* *-? *(?P<name>[^#]*?){_SCORE}(?: +# time=.*)?$"),
        "---",
        re.compile(r" *\.\.\.$|(?:ok|not ok)\b"),
    ),
)
_GO_LINE = re.compile(
    r" *(?P<mark>=== RUN|--- (?:PASS|FAIL|SKIP):) +(?P<test>\S+)"
    r"|(?P<end>ok|FAIL)[ \t]+(?P<package>\S+)[ \t]+(?:[\d.]+s|\(cached\)|\[\w+ failed\])"
)
_ANT_LINE = re.compile(
    r" *\[(?:junit|java)\] \d+\) (?P<test>\w+\([\w.$]+\))"
    r"| *\[junit\] Running (?P<suite>\S+)$"
    r"| *\[junit\] Tests run: \d+, Failures: (?P<failures>\d+), Errors: (?P<errors>\d+)"
)
_UNDER_WAY = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rf"^({_PYTHON_TEST}) \.\.\. \Z",
        r'^  File "[^"\n]{1,300}", line \d+ in (test\w*)$',
        r"^test (.{1,300}) has been running for over \d+ seconds$",
        r"^\[ RUN      \] (\S+)$",
        r"^=== RUN +(\S+)$",
    )
)

_Reader = Callable[[Sequence[str]], Iterator[tuple[str, Case]]]


def text_cases(text: str) -> Cases:
    """Return the cases in the output of a test command; none if no format fits.

    Of several formats that fit, the one with most tests counts.
    """
    lines = strip_control_characters(text).splitlines()
    short = [line[:_MAX_LINE] for line in lines]
    runners = {line.runner: _reader(line.runner) for line in _LINES}
    found = [collect(read(short)) for read in (*runners.values(), _go)]
    return max((*found, collect(_go_json(lines))), key=len)


def ant_cases(text: str) -> Cases:
    """Return the cases in the output of ant: whole classes, or what JUnit's own runner lists.

    Ant ends with exit code 0 after failing tests, unless its build file says otherwise.
    """
    return collect(_ant([line[:_MAX_LINE] for line in text.splitlines()]))


def _ant(lines: Sequence[str]) -> Iterator[tuple[str, Case]]:
    suite = ""
    said: deque[str] = deque(maxlen=_MAX_MESSAGE_LINES)
    for line in lines:
        found = _ANT_LINE.match(line)
        if found is None:
            said.append(line)
        elif found["suite"]:
            suite = found["suite"]
            said.clear()
        elif found["test"]:
            yield found["test"], Case("failed")
        elif suite:
            failed = found["failures"] != "0" or found["errors"] != "0"
            yield suite, Case("failed", "\n".join(said)) if failed else Case("passed")


def under_way(text: str) -> str | None:
    """Return the test that had begun and not ended when the output stopped, if it tells."""
    cases = text_cases(text)
    for pattern in _UNDER_WAY:
        begun = [str(name) for name in pattern.findall(text) if name not in cases]
        if begun:
            return begun[-1]
    return None


def _reader(runner: str) -> _Reader:
    patterns = [line.pattern for line in _LINES if line.runner == runner]
    sections = [section for section in _SECTIONS if section.runner == runner]

    def read(lines: Sequence[str]) -> Iterator[tuple[str, Case]]:
        if runner == "unittest":
            lines = _joined(lines)
        if runner == "tap":
            lines = list(_outer(lines))
        for line in lines:
            for found in filter(None, (pattern.match(line) for pattern in patterns)):
                yield found["name"], _case(found.groupdict())
        for section in sections:
            yield from _details(section, lines)

    return read


def _outer(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines without the whole output of a failed file, which node-tap prints indented.

    Of a file that passes it prints nothing: those tests would be missing after a repair.
    """
    inner = 0
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        if inner and line.strip() and indent < inner:
            inner = 0
        if not inner and _TAP_BEGINS.match(line):
            inner = indent
        if not inner:
            yield line


def _joined(lines: Sequence[str]) -> list[str]:
    """Put a unittest's name and its docstring, which stand on two lines, on one."""
    joined: list[str] = []
    for line in lines:
        if joined and re.fullmatch(_PYTHON_TEST, joined[-1]) and " ... " in line:
            joined[-1] += f" ... {line.rpartition(' ... ')[2]}"
        else:
            joined.append(line)
    return joined


def _case(found: dict[str, str | None]) -> Case:
    return Case("skipped") if found.get("aside") else Case(_STATUS[found.get("word") or "FAIL"])


def _details(section: _Section, lines: Sequence[str]) -> Iterator[tuple[str, Case]]:
    name, message = "", list[str]()
    for line in lines:
        begun = section.begin.match(line)
        if name and (begun or section.end.match(line)):
            yield name, Case("failed", "\n".join(message))
            name = ""
        if begun:
            name, message = begun["name"], []
        elif name and line.strip() != section.fence and len(message) < _MAX_MESSAGE_LINES:
            message.append(line)
    if name:
        yield name, Case("failed", "\n".join(message))


def _go(lines: Sequence[str]) -> Iterator[tuple[str, Case]]:
    """Read `go test -v`: the tests of a package come before the line that names it."""
    tests: dict[str, Case] = {}
    said: deque[str] = deque(maxlen=_MAX_MESSAGE_LINES)
    for line in lines:
        found = _GO_LINE.match(line)
        if found is None:
            said.append(line)
        elif test := found["test"]:
            word = found["mark"].removeprefix("---").strip(" :")
            # A test that began and has no result crashed, or was running in a crash.
            status = "failed" if word == "=== RUN" else _STATUS[word]
            tests[test] = Case(status, "\n".join(said) if status == "failed" else "")
            said.clear()
        else:
            package, ok = found["package"], found["end"] == "ok"
            for test, case in tests.items():
                yield f"{package}.{test}", case
            if ok or all(case.status != "failed" for case in tests.values()):
                yield package, Case("passed" if ok else "failed", "\n".join(said))
            tests = {}
            said.clear()


def _go_json(lines: Sequence[str]) -> Iterator[tuple[str, Case]]:
    """Read `go test -json`."""
    output: dict[str, str] = {}
    for line in lines:
        if not line.startswith('{"') or len(line) > _MAX_JSON_LINE or len(output) > MAX_CASES:
            continue
        try:
            event = as_mapping(json.loads(line))
        except (ValueError, RecursionError):
            continue
        name = ".".join(str(event[key]) for key in ("Package", "Test") if event.get(key))
        action = str(event.get("Action", ""))
        if action == "output":
            output[name] = (output.get(name, "") + str(event.get("Output", "")))[-_MAX_JSON_LINE:]
        elif action in ("pass", "fail", "skip") and name:
            yield name, Case(_STATUS[action], output.get(name, "") if action == "fail" else "")
