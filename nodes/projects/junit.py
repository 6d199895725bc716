"""JUnit XML, which most test runners can write.

The files come from the sandbox and are untrusted: a document type, and with it every entity, is
refused, and the parser builds no tree.
"""

from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import ParseError, XMLParser

from nodes.projects.cases import MAX_CASES, Case, CaseStatus

_MAX_TEXT = 16 * 1024
_STATUS: Mapping[str, CaseStatus] = {"failure": "failed", "error": "failed", "skipped": "skipped"}


def junit_cases(data: bytes) -> list[tuple[str, Case]]:
    """Return names and cases in a JUnit file; those before the fault if it is broken."""
    reader = _Reader()
    parser = XMLParser(target=reader)  # noqa: S314 - `_Reader` refuses entities
    try:
        parser.feed(data)
        parser.close()
    except (ParseError, ValueError, LookupError):  # LookupError: an unknown encoding
        pass
    return reader.cases


class _Reader:
    """Receives the parser's events."""

    def __init__(self) -> None:
        self.cases: list[tuple[str, Case]] = []
        self._name = ""
        self._status: CaseStatus = "passed"
        self._attribute = ""
        self._text: list[str] = []
        self._inside = False
        self._size = 0

    def doctype(self, *_: object) -> None:
        raise ValueError("a JUnit file has no document type")

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "testcase":
            if len(self.cases) >= MAX_CASES:
                raise ValueError("too many test cases")
            self._name = _test_name(attributes)
            self._status, self._attribute, self._text, self._size = "passed", "", [], 0
        elif tag in _STATUS and self._status != "failed":
            self._status = _STATUS[tag]
            self._attribute = attributes.get("message", "")[:_MAX_TEXT]
            self._inside = True

    def data(self, text: str) -> None:
        if self._inside and self._size < _MAX_TEXT:
            self._text.append(text)
            self._size += len(text)

    def end(self, tag: str) -> None:
        if tag in _STATUS:
            self._inside = False
        elif tag == "testcase":
            text = "".join(self._text).strip()
            message = text if self._attribute in text else f"{self._attribute}\n{text}"
            self.cases.append((self._name, Case(self._status, message)))

    def close(self) -> None:
        pass


def _test_name(attributes: Mapping[str, str]) -> str:
    name, group = attributes.get("name", ""), attributes.get("classname", "")
    file = attributes.get("file", "")
    if file.endswith(".py"):  # pytest: as its command line takes it
        module = file.removesuffix(".py").replace("/", ".")
        classes = group.removeprefix(module).strip(".")
        return "::".join(_filled(file, *classes.split("."), name))
    return ".".join(_filled(group, name))


def _filled(*parts: str) -> Iterator[str]:
    return (part for part in parts if part)
