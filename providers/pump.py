"""What a thread makes, given out asynchronously: one thread a request, no hop a part."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import Executor
from typing import Generic, TypeVar

T = TypeVar("T")

_WINDOW = 64
"""Parts that wait to be sent, at most; then the thread waits too."""


class Pump(Generic[T]):
    """Runs a generator in a thread and closes it there, also when nobody listens to its end."""

    def __init__(self, parts: Generator[T, None, None], executor: Executor) -> None:
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[T] = deque()
        self._room = threading.Semaphore(_WINDOW)
        self._ready = asyncio.Event()
        self._done = self._stopped = False
        self._running = self._loop.run_in_executor(executor, self._run)

    async def taken(self) -> AsyncGenerator[list[T], None]:
        """What there is, as soon as there is some; parts that came together come together.

        What the generator raises is raised here.
        """
        try:
            while not self._done:
                await self._ready.wait()
                self._ready.clear()
                if parts := self._take():
                    yield parts
            await self._running
            if parts := self._take():
                yield parts
        finally:
            self._stopped = True
            self._room.release()

    def _run(self) -> None:
        """In the thread: part after part until the end, or until nobody listens."""
        try:
            for part in self._parts:
                self._room.acquire()
                if self._stopped:
                    break
                self._waiting.append(part)
                if len(self._waiting) == 1:  # else it was called already, and has not come yet
                    self._loop.call_soon_threadsafe(self._ready.set)
        finally:
            self._parts.close()
            self._done = True
            self._loop.call_soon_threadsafe(self._ready.set)

    def _take(self) -> list[T]:
        parts = []
        while self._waiting:
            parts.append(self._waiting.popleft())
            self._room.release()
        return parts
