"""A run's report as Prefect artifacts: one markdown, one table."""

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from contracts.run import RunReport
from flows.report import markdown, table_rows


def publish_report(report: RunReport, diff: str) -> None:
    """Attach the report to the flow run that this is called in."""
    create_markdown_artifact(
        markdown(report, diff),
        key=f"report-{report.run_id}",
        description=f"{report.blueprint}: {report.status}",
    )
    create_table_artifact(
        table_rows(report),
        key=f"nodes-{report.run_id}",
        description=f"Nodes of run {report.run_id}",
    )
