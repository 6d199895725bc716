"""Publishes a run's report and events as Prefect artifacts."""

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from contracts.run import RunReport
from flows.config.settings import load_settings
from flows.runs.report import report_markdown, surfaced_markdown, table_rows
from flows.services.daemons import pages_url
from flows.services.server_outage import ignore_outage
from policy.log.view import ViewSpec, view_markdown


def publish_report(report: RunReport, diff: str) -> None:
    """Attach the report, and links to what memory showed, to the current flow run."""
    shown = surfaced_markdown(report.surfaced, pages_url(load_settings()))
    attach_markdown(
        "\n".join(filter(None, (report_markdown(report, diff), shown))),
        key=f"report-{report.run_id}",
        description=f"{report.blueprint}: {report.status}",
    )
    with ignore_outage("the table of nodes"):
        create_table_artifact(
            table_rows(report),
            key=f"nodes-{report.run_id}",
            description=f"Nodes of run {report.run_id}",
        )


def publish_view(view: ViewSpec, run_id: str) -> None:
    """Attach the run's data flow and decisions, from the event log, to the current flow run."""
    attach_markdown(
        view_markdown(view),
        key=f"events-{run_id}",
        description="Which event led to which, what was tainted, and all decisions",
    )


def attach_markdown(text: str, *, key: str, description: str) -> None:
    """Attach Markdown to the current flow run or task run; skipped while the server is down."""
    with ignore_outage(f"the artifact {key}"):
        create_markdown_artifact(text, key=key, description=description)
