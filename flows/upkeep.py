"""Upkeep: flows that clean up this machine, on the schedules of `prefect.yaml`."""

from datetime import UTC, datetime

from prefect import flow, get_run_logger
from prefect.settings import get_current_settings

from flows.config.memory import load_memory_settings
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.end_state import set_recorded_states
from flows.execution.kept_runs import commented_runs
from flows.execution.reconcile import reconcile_lost_runs
from flows.execution.wiring import build_dependencies, docker_engine, sandbox_owner
from flows.orchestration.cancel import cancel_waiting_runs
from flows.orchestration.suspend import resume_all_decided
from flows.orchestration.tasks import publish_curation
from flows.plans.dependencies import plan_dependencies
from flows.plans.reconcile import cancel_waiting_plans
from flows.recall.curation import curate_run, curate_since, curate_uncurated, parse_age
from flows.recall.library import configured_library
from flows.services.check_wait import go_on_after_end
from memory.curation.curate import CurationResult
from sandbox.reap import reap


@flow(name="reap-sandboxes")
def reap_sandboxes() -> None:
    """Finish runs and plans that were cancelled while they waited, record killed runs, answer
    comments, and remove leftover containers and snapshots.
    """
    settings = load_settings()
    tools = build_dependencies(settings)
    get_run_logger().info("%d waiting runs were cancelled", cancel_waiting_runs(tools))
    get_run_logger().info("%d runs were killed", reconcile_lost_runs(tools))
    api = get_current_settings().api.url
    if api is not None:
        late = set_recorded_states(settings.runs, api)
        get_run_logger().info("%d flow runs got their state after an outage", late)
    with plan_dependencies(settings) as deps:
        get_run_logger().info("%d waiting plans were cancelled", cancel_waiting_plans(deps))
    _answer_comments(tools)
    reaped = reap(docker_engine(), sandbox_owner(settings))
    get_run_logger().info(
        "removed %d containers and %d snapshots", len(reaped.containers), len(reaped.snapshots)
    )


@flow(name="answer-comments")
def answer_comments() -> None:
    """Let runs go on whose pull requests have comments that ask for something. Webhooks start it;
    `reap-sandboxes` does the same on its schedule.
    """
    _answer_comments(build_dependencies(load_settings()))


def _answer_comments(tools: RunDependencies) -> None:
    api = str(get_current_settings().api.url)
    for run_id, flow_run in commented_runs(tools):
        goes_on = go_on_after_end(api, flow_run)
        word = "goes on" if goes_on else f"needs `harness runs resume {run_id}` to go on"
        get_run_logger().info("run %s %s: its pull request has a comment", run_id, word)


@flow(name="expire-approvals")
def expire_approvals() -> None:
    """Expire approvals that were not decided in time, and resume the runs that waited for them."""
    with plan_dependencies(load_settings()) as deps:
        get_run_logger().info("%d approvals expired", deps.approvals.expire())
        get_run_logger().info("%d suspended runs are resumed", resume_all_decided(deps.approvals))


@flow(name="prune-memory")
def prune_memory(dry_run: bool = False) -> None:
    """Archive stale and weak playbooks; nothing is deleted.

    Args:
        dry_run: Only log what would be archived.
    """
    with configured_library() as opened:
        stale = opened.prune(load_memory_settings().retention, dry_run=dry_run)
    word = "would archive" if dry_run else "archived"
    for playbook, why in stale:
        get_run_logger().info("%s %s: %s", word, playbook.slug, why)
    get_run_logger().info("%s %d playbooks", word, len(stale))


@flow(name="reindex-memory")
def reindex_memory() -> None:
    """Rebuild the search indexes from the database."""
    with configured_library() as opened:
        opened.reindex()
        get_run_logger().info("reindexed %d playbooks", opened.stats().playbooks)


@flow(name="curate-runs")
def curate_runs(since: str = "7d") -> None:
    """Propose notes and examples from recent successful runs; a person accepts or refuses them.

    Args:
        since: How long ago a run may have ended or been rated, as 90m, 24h or 7d.
    """
    if not load_memory_settings().curates:
        get_run_logger().info("curation is switched off: `memory.curate`")
        return
    for curated in curate_since(parse_age(since, datetime.now(UTC))):
        _report(curated)


@flow(name="curate-run", flow_run_name="curate {run}")
def curate_one(run: str, once: bool = False) -> None:
    """Propose notes and examples from one run; a person accepts or refuses them.

    Args:
        run: Run id, or its beginning.
        once: Do nothing if the run was curated before.
    """
    curated = curate_uncurated(run) if once else curate_run(run)
    if curated is not None:
        _report(curated)


def _report(curated: CurationResult) -> None:
    publish_curation(curated)
    get_run_logger().info(
        "run %s: %d proposed, %d known already, %d refused%s",
        curated.run_id,
        len(curated.written),
        len(curated.merged),
        len(curated.refused),
        f": {curated.error}" if curated.error else "",
    )
