"""The playbook tools of one run, for any agent."""

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

from contracts.errors import Unavailable
from contracts.tool import McpEndpoint, Toolbox, ToolCall
from flows.config.memory import MemorySettings
from flows.recall.library import configured_library
from memory.database import read_transaction
from memory.playbooks.library import Library
from memory.playbooks.mcp import PATH, serve_playbooks
from memory.playbooks.recall import Suggestion, suggest_playbooks, was_held_out
from memory.playbooks.tools import ToolAccess, playbook_tools, run_playbook_tool
from memory.types import RecallOptions

_log = logging.getLogger(__name__)


@contextmanager
def run_toolbox(
    options: MemorySettings, access: ToolAccess, run_id: str
) -> Iterator[Callable[[], Toolbox | None]]:
    """Yield a function that returns the run's toolbox; None if held out or memory is unavailable.

    The first call opens the library; the end of the block closes it.
    """
    with ExitStack() as stack:
        opened: list[_Tools] = []
        opening = Lock()

        def ask() -> Toolbox | None:
            try:
                with opening:
                    if not opened:
                        found = stack.enter_context(configured_library(options))
                        opened.append(_Tools(found, options.surfacing, access, run_id, stack))
                return opened[0].toolbox()
            except Unavailable as error:
                _log.warning("run %s continues without playbook tools: %s", run_id, error)
                return None

        yield ask


class _Tools:
    """The tools of one run on an open library. Thread-safe."""

    def __init__(
        self,
        opened: Library,
        options: RecallOptions,
        access: ToolAccess,
        run_id: str,
        stack: ExitStack,
    ) -> None:
        self._library = opened
        self._options = options
        self._access = access
        self._run_id = run_id
        self._stack = stack
        self._lock = Lock()
        self._door: McpEndpoint | None = None
        self._suggested: dict[str, Suggestion] = {}

    def toolbox(self) -> Toolbox | None:
        with read_transaction(self._library.engine) as connection:
            if was_held_out(connection, self._run_id):
                return None
        return Toolbox(
            tools=playbook_tools(self._access),
            run=self._run,
            prompt_section=self._suggest,
            mcp_endpoint=self.door,
        )

    def door(self) -> McpEndpoint:
        """Start an MCP server for the tools, until the run ends."""
        with self._lock:
            if self._door is None:
                served = self._stack.enter_context(
                    serve_playbooks(
                        self._library,
                        run_id=self._run_id,
                        access=self._access,
                        options=self._options,
                    )
                )
                self._door = McpEndpoint(
                    connect=lambda: socket.create_connection(("127.0.0.1", served.port)),
                    path=PATH,
                    token=served.token,
                )
            return self._door

    def _run(self, call: ToolCall) -> str:
        return run_playbook_tool(
            self._library,
            call,
            run_id=self._run_id,
            access=self._access,
            options=self._options,
        )

    def _suggest(self, prompt_id: str, prompt: str) -> str:
        last = self._suggested.get(prompt_id)
        try:
            text, found = suggest_playbooks(
                self._library,
                prompt_id=prompt_id,
                prompt=prompt,
                last=last,
                tools={tool.name for tool in playbook_tools(self._access)},
                options=self._options,
            )
        except Unavailable as error:
            _log.warning("run %s is suggested no playbooks: %s", self._run_id, error)
            return "The playbooks cannot be read now."
        self._suggested[prompt_id] = found
        return text
