"""All rows about learning."""

from collections.abc import Iterator

from benchmarks.learning import following, planted_rules
from benchmarks.row import Row


def rows() -> Iterator[Row]:
    """Which playbooks are followed, and whether rules are learned; a few minutes."""
    yield from following.rows()
    yield from planted_rules.rows()
