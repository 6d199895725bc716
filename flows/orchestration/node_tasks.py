"""Runs nodes as Prefect task runs, and writes their progress to the Prefect log."""

from collections.abc import Callable
from contextvars import copy_context
from logging import LogRecord, getLogger

from prefect import State, allow_failure, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import MissingContextError
from prefect.states import Completed, Failed

from blueprints.engine import RunListener, WrapNode
from contracts.run import NodeResult
from nodes.types import Node


def node_task_runner() -> WrapNode:
    """Return a wrapper that runs each node as a task run; a failed node's task run is Failed.

    Each task run depends on the one before it, so that the graph shows their order.
    """
    last: State[object] | None = None
    log_failures_once()

    def perform(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
        nonlocal last
        # No tags: for each, Prefect asks the server for a concurrency limit.
        # A function: Prefect treats a string as a template.
        run = _node_task.with_options(name=node.name, task_run_name=lambda: node.name)
        before = None if last is None else [allow_failure(last)]
        last = run(execute, return_state=True, wait_for=before)
        match last.result(raise_on_failure=False):
            case NodeResult() as result:
                return result
            case BaseException() as error:
                raise error
            case other:
                raise TypeError(f"node {node.name!r} gave {other!r}, which is no NodeResult")

    return perform


@task(cache_policy=NO_CACHE, persist_result=False)
def _node_task(execute: Callable[[], NodeResult]) -> object:
    result = execute()
    match result.status:
        case "success":
            return Completed(data=result)
        case "skipped":
            return Completed(name="Skipped", data=result)
        case "failure":
            return Failed(message=result.error, data=result)


def watch_in_log(watch: RunListener) -> RunListener:
    """Return a listener that also writes to the Prefect log of the current run."""
    of_run = copy_context()

    def say(words: str, *given: object) -> None:
        try:
            get_run_logger().info(words, *given)
        except MissingContextError:  # in a thread that the node started
            of_run.copy().run(say, words, *given)

    def on_complete(name: str, result: NodeResult) -> None:
        why = f": {result.error}" if result.error else ""
        seconds = result.duration_ms / 1000
        say("node %r: %s in %.1f s%s", name, result.status, seconds, why)
        watch.on_node_complete(name, result)

    def on_line(name: str, line: str) -> None:
        say("%s", line)
        watch.on_line(name, line)

    return RunListener(
        on_node_start=watch.on_node_start, on_node_complete=on_complete, on_line=on_line
    )


def log_failures_once() -> None:
    """Drop Prefect's "failed with state" record of a task that returned Failed.

    It has an empty traceback and the whole output; the record after it names the reason.
    """
    getLogger("prefect.task_runs").addFilter(_is_news)


def _is_news(record: LogRecord) -> bool:
    return record.module != "task_engine" or record.exc_info != (None, None, None)
