"""Titles of playbooks that may fit a prompt, for an agent that reads the rest on demand."""

from dataclasses import dataclass

from memory.around_run import RecallOptions
from memory.database import read_transaction
from memory.playbooks.library import Library
from memory.playbooks.render import render_titles
from memory.playbooks.store import by_id
from memory.playbooks.tools import DEFAULT_RECALL_OPTIONS, ToolAccess, playbook_tools
from memory.types import PlaybookFilter, PlaybookQuery

NO_DRAFTS = PlaybookFilter(drafts=False)


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """What was found for one prompt."""

    prompt_id: str
    ids: tuple[str, ...]


def suggest_playbooks(
    library: Library,
    *,
    prompt_id: str,
    prompt: str,
    last: Suggestion | None = None,
    access: ToolAccess = "draft",
    options: RecallOptions = DEFAULT_RECALL_OPTIONS,
) -> tuple[str, Suggestion]:
    """The titles block for a prompt. Searched once a prompt: hand `last` back at each model call.

    Drafts are left out, and playbooks that are gone or archived by now, also of what was found
    before.
    """
    if last is None or last.prompt_id != prompt_id:
        query = PlaybookQuery(
            text=prompt,
            limit=options.limit,
            filter=NO_DRAFTS,
            max_distance=options.max_distance,
        )
        hits = library.search(query)
        last = Suggestion(prompt_id=prompt_id, ids=tuple(hit.playbook.id for hit in hits))
    with read_transaction(library.engine) as connection:
        there = by_id(connection, last.ids)
    live = [there[id_] for id_ in last.ids if id_ in there and there[id_].status == "active"]
    return render_titles(live, {tool.name for tool in playbook_tools(access)}), last
