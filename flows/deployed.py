"""The flows that `prefect.yaml` points at."""

from prefect import flow, get_run_logger

from blueprints.library import fix_tests as _fix_tests
from blueprints.library import implement as _implement
from blueprints.library import review as _review
from blueprints.library import upgrade_deps as _upgrade_deps
from flows.compile import compile_blueprint
from flows.settings import load_settings
from flows.wiring import engine, owner, workshop
from sandbox.reap import reap

fix_tests = compile_blueprint(_fix_tests.fix_tests, workshop)
implement = compile_blueprint(_implement.implement, workshop)
review = compile_blueprint(_review.review, workshop)
upgrade_deps = compile_blueprint(_upgrade_deps.upgrade_deps, workshop)


@flow(name="reap-sandboxes")
def reap_sandboxes() -> None:
    """Remove the containers and snapshots of ours that nobody needs any more."""
    reaped = reap(engine(), owner(load_settings()))
    get_run_logger().info(
        "removed %d containers and %d snapshots", len(reaped.containers), len(reaped.images)
    )
