"""The playbook tools of one run, for any agent."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Lock

from contracts.errors import Unavailable
from contracts.tool import Toolbox, ToolCall
from flows.config.memory import MemorySettings
from flows.recall.library import configured_library
from memory.database import read_transaction
from memory.playbooks.library import Library
from memory.playbooks.recall import suggest_playbooks, was_held_out
from memory.playbooks.tools import ToolAccess, playbook_tools, run_playbook_tool
from memory.types import RecallOptions
from providers.mcp_endpoint import serve_toolbox

_log = logging.getLogger(__name__)


@contextmanager
def run_toolbox(
    options: MemorySettings, access: ToolAccess, run_id: str
) -> Iterator[Callable[[], Toolbox | None]]:
    """Yield a function that returns the run's toolbox; None if held out or memory is unavailable.

    The first call opens the library; the end of the block closes it.
    """
    with ExitStack() as stack:
        opened: list[_RunTools] = []
        opening = Lock()

        def ask() -> Toolbox | None:
            try:
                with opening:
                    if not opened:
                        found = stack.enter_context(configured_library(options))
                        opened.append(_RunTools(found, options.surfacing, access, run_id))
                return opened[0].toolbox()
            except Unavailable as error:
                _log.warning("run %s continues without playbook tools: %s", run_id, error)
                return None

        yield ask


@dataclass
class _RunTools:
    """The tools of one run on an open library. Thread-safe."""

    library: Library
    options: RecallOptions
    access: ToolAccess
    run_id: str

    def toolbox(self) -> Toolbox | None:
        with read_transaction(self.library.engine) as connection:
            if was_held_out(connection, self.run_id):
                return None
        return Toolbox(
            tools=playbook_tools(self.access),
            run=self._run,
            prompt_section=self._suggest,
            serve=serve_toolbox,
        )

    def _run(self, call: ToolCall) -> str:
        return run_playbook_tool(
            self.library,
            call,
            run_id=self.run_id,
            access=self.access,
            options=self.options,
        )

    def _suggest(self, prompt: str) -> str:
        tools = {tool.name for tool in playbook_tools(self.access)}
        try:
            return suggest_playbooks(self.library, prompt, tools=tools, options=self.options)
        except Unavailable as error:
            _log.warning("no playbooks can be suggested to run %s: %s", self.run_id, error)
            return "The playbooks cannot be read now."
