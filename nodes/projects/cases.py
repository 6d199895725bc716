"""Test cases: the result of each single test of one test run."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from nodes.text import one_line, truncate_middle

MAX_CASES = 50_000
"""More cases of one test run are not read."""

MAX_MESSAGE = 2_000
"""Characters that are kept of what a runner says about one failure."""

_MAX_NAME = 300
_VOLATILE = re.compile(r"0x[0-9a-fA-F]+")

CaseStatus = Literal["passed", "failed", "skipped"]


class Case(NamedTuple):
    """Result of one test."""

    status: CaseStatus
    message: str = ""


Cases = Mapping[str, Case]
"""Cases by the name of their test."""


def collect(found: Iterable[tuple[str, Case]]) -> dict[str, Case]:
    """Return the cases by name. Of several with one name, a failed one counts."""
    cases: dict[str, Case] = {}
    for name, case in found:
        # Addresses of objects in names of parametrised tests differ from run to run.
        short = one_line(_VOLATILE.sub("0x…", name), _MAX_NAME)
        known = cases.get(short)
        if not short or (known is None and len(cases) >= MAX_CASES):
            continue
        if known is None or known.status != "failed" or (case.status == "failed" and case.message):
            cases[short] = case._replace(message=truncate_middle(case.message.strip(), MAX_MESSAGE))
    return cases
