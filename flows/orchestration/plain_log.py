"""What Prefect's log says of a failed node: how it ended, without a trace of nothing."""

from logging import LogRecord, getLogger


def failures_told_once() -> None:
    """Leave out that a task "failed with state", before the line that says in which and why.

    Prefect writes it with the traceback of an exception that there is not, and with all output.
    """
    getLogger("prefect.task_runs").addFilter(_is_news)


def _is_news(record: LogRecord) -> bool:
    return record.module != "task_engine" or record.exc_info != (None, None, None)
