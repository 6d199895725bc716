"""Results of a project's tests, test by test."""

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class FailedTest:
    """A test that did not pass. `message` is what its runner says about it, shortened."""

    name: str
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """Results of one test run by test. Field names are public: they are part of the report.

    failed          tests that the agent has to fix
    environment     tests that fail because of the sandbox: a missing tool, network or display, or
                    like at the `reference`, a commit that is known to be good
    failed_before   tests that failed before the agent began, in runs that need not fix them
    flaky           tests that failed, and passed when run again without a change
    fixed           tests that failed before the agent began and pass now
    """

    passed: int = 0
    skipped: int = 0
    failed: tuple[FailedTest, ...] = ()
    environment: tuple[FailedTest, ...] = ()
    failed_before: tuple[FailedTest, ...] = ()
    flaky: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    reference: str = ""

    def with_texts(self, change: Callable[[str], str]) -> "Verdicts":
        """Return these verdicts with every name and message changed by `change`."""

        def tests(given: tuple[FailedTest, ...]) -> tuple[FailedTest, ...]:
            return tuple(
                FailedTest(name=change(test.name), message=change(test.message)) for test in given
            )

        return replace(
            self,
            failed=tests(self.failed),
            environment=tests(self.environment),
            failed_before=tests(self.failed_before),
            flaky=tuple(map(change, self.flaky)),
            fixed=tuple(map(change, self.fixed)),
        )

    def __str__(self) -> str:
        """Return one line such as `118 passed, 2 failed, 24 environment`."""
        counts = {
            "passed": self.passed,
            "failed": len(self.failed),
            "environment": len(self.environment),
            "failed before": len(self.failed_before),
            "flaky": len(self.flaky),
            "skipped": self.skipped,
        }
        shown = [f"{count} {word}" for word, count in counts.items() if count or word == "passed"]
        return ", ".join(shown)
