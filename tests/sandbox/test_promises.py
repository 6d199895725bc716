"""The page on what the sandbox promises: every promise is held by a test that is there."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "why" / "sandbox.md"
LINK = re.compile(r"\]\(([^)#]+)#(\w+)\)")


def test_every_link_on_the_page_leads_to_an_existing_test() -> None:
    links = LINK.findall(PAGE.read_text())
    lost = [
        f"{file}#{name}"
        for file, name in links
        if f"def {name}(" not in (PAGE.parent / file).read_text()
    ]
    assert len(links) > 40
    assert lost == []


def test_every_row_has_a_test() -> None:
    tables = PAGE.read_text().split("| Promise | Tested by |\n")[1:]
    rows = [line for table in tables for line in table.split("\n\n")[0].splitlines()]
    promises = [row for row in rows if not row.startswith("|---")]
    assert len(promises) > 30
    assert [row for row in promises if not LINK.search(row)] == []
