"""Names and tags of flow runs, by which users find them in the Prefect UI."""

from prefect import get_client
from prefect.runtime import flow_run

from flows.runs.request import ResolvedRequest, repo_name
from flows.services.server_outage import ignore_outage

NO_REPO = "no repository"
"""Stands for the repository in the name of a flow run that was started without one."""


def run_name(blueprint: str, repo: str, run_id: str) -> str:
    """Return a name such as `fix-tests · my-project · 3f9a0c1d`."""
    return f"{blueprint} · {repo_name(repo)} · {run_id}"


def run_tags(request: ResolvedRequest) -> list[str]:
    """Return the tags by which the Prefect UI can filter."""
    return [
        f"blueprint:{request.definition.name}",
        f"repo:{repo_name(request.repo)}",
        f"agent:{request.agent}",
        f"model:{request.model}",
    ]


def tag_flow_run(request: ResolvedRequest) -> None:
    """Add the tags to the current flow run.

    Not before it starts: task runs inherit the tags that a flow run starts with, and for each tag
    of a task run Prefect asks the server for a concurrency limit.
    """
    known = [*(flow_run.tags or ()), *run_tags(request)]
    with ignore_outage("the tags of the flow run"):
        get_client(sync_client=True).update_flow_run(flow_run.id, tags=sorted(set(known)))
