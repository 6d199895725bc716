"""Time limits of Python functions, and calls in threads of their own."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

from nodes.node_sandbox import NodeSandbox

_T = TypeVar("_T")

_GRACE_S = 1.0
"""Seconds for a function to return after its last command was killed."""


def start_in_thread(call: Callable[[], _T]) -> Future[_T]:
    """Start the call in a daemon thread, with a copy of the caller's context variables.

    A thread pool would wait for all its threads at exit, also after Ctrl-C.
    """
    future: Future[_T] = Future()
    context = copy_context()
    Thread(target=context.run, args=(_fulfil, call, future), daemon=True).start()
    return future


class DidNotReturn(Exception):
    """A Python function of a blueprint was still running at its node's deadline."""


def call_in_time(call: Callable[[], _T], sandbox: NodeSandbox) -> _T:
    """Return the result of the call, which may take as long as the sandbox's node.

    The sandbox ends commands itself, so a running command is waited for. A Python function cannot
    be ended: its thread is left behind, and every later command in it fails.

    Raises:
        DidNotReturn: the call runs Python code at the node's deadline.
    """
    if sandbox.left_s is None:
        return call()
    future = start_in_thread(call)
    done = wait([future], sandbox.left_s).done
    while not done:
        done = wait([future], _GRACE_S).done
        if not done and not sandbox.executing:
            raise DidNotReturn("its Python function did not return")
    return future.result()


def _fulfil(call: Callable[[], _T], future: Future[_T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - future.result() raises it again
        future.set_exception(error)
