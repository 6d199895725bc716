"""What a flow run is called and how it is tagged, so that people find it among many."""

from prefect import get_client
from prefect.runtime import flow_run

from flows.runs.request import ResolvedRequest, repo_name
from flows.services.server_outage import ignore_outage

NO_REPO = "no repository"
"""In the name of a run that was started without one; it ends by saying so."""


def run_name(blueprint: str, repo: str, run_id: str) -> str:
    """As in `fix-tests · my-project · 3f9a0c1d`."""
    return f"{blueprint} · {repo_name(repo)} · {run_id}"


def run_tags(request: ResolvedRequest) -> list[str]:
    """What the Prefect UI can be asked to show only."""
    return [
        f"blueprint:{request.definition.name}",
        f"repo:{repo_name(request.repo)}",
        f"agent:{request.agent}",
        f"model:{request.model}",
    ]


def tag_flow_run(request: ResolvedRequest) -> None:
    """Add the tags to the flow run that this is called in.

    Only now: task runs inherit the tags that a flow run starts with, and each tag of a task
    run costs a question to the server about its concurrency limits.
    """
    known = [*(flow_run.tags or ()), *run_tags(request)]
    with ignore_outage("the tags of the flow run"):
        get_client(sync_client=True).update_flow_run(flow_run.id, tags=sorted(set(known)))
