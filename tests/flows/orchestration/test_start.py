"""A run is begun, or gone on with, at a Prefect server, which may be too busy to answer."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from time import sleep
from uuid import UUID, uuid4

import pytest
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

from blueprints.dsl import agentic, blueprint, deterministic
from blueprints.engine import RunListener
from contracts.errors import PrefectUnavailable, RepoInvalid
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.orchestration.start import connected_to, run_in_flow_run, run_in_prefect
from flows.runs.runs import read_report
from nodes.commands import command
from tests.support.flows import DONE, Ask
from tests.support.git_repos import make_repo, run_git
from tests.support.git_server import git_server


class Busy(BaseHTTPRequestHandler):
    """What Prefect's server says when its database is locked for too long."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(503)
        self.end_headers()

    do_GET = do_POST  # noqa: N815 - the library asks for it by this name

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def busy() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


def test_a_server_that_is_too_busy_is_named_in_one_line(busy: str) -> None:
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        pytest.raises(PrefectUnavailable, match=r"stopped answering.*503") as told,
        connected_to(busy),
        get_client(sync_client=True) as client,
    ):
        client.create_flow_from_name("any")
    assert "\n" not in str(told.value)


@pytest.mark.prefect
def test_a_flow_run_of_a_deployment_goes_on_with_its_own_parameters(
    shop: RunDependencies, repository: Path, prefect_api: str
) -> None:
    """`run-blueprint` was asked for one more than the flow takes, and for few of the others."""
    from flows.orchestration.compile import compile_blueprint
    from flows.services.prefect_server import prefect_client

    look = blueprint("look", "Look", [deterministic("look", "look", command("true"))])
    flow = compile_blueprint(look, lambda: shop, run_id="b2")
    asked = {"repo": str(repository), "model": "scripted/none"}
    with connected_to(prefect_api), prefect_client(prefect_api) as client:
        given = {"blueprint": "ops.py:look", **asked, "intent": "as it was asked"}
        begun = client.create_flow_run(flow, parameters=given)
        state = run_in_flow_run(flow, {**asked, "intent": ""}, str(begun.id))
    assert state.is_completed()
    assert read_report(shop.runs, "b2").intent == "as it was asked"


@pytest.mark.prefect
def test_the_password_of_an_address_opens_the_repository_and_is_told_to_no_server(
    prefect_api: str, tmp_path: Path, own_home: Path, ask: Ask
) -> None:
    from flows.services.prefect_server import prefect_client

    bare = tmp_path / "served" / "notes.git"
    run_git(tmp_path, "clone", "--quiet", "--bare", str(make_repo(tmp_path / "first")), str(bare))
    look = blueprint("look-far", "Look", [deterministic("look", "look", command("true"))])
    with git_server(tmp_path / "served", user="ada", password="correct-horse") as place:
        asked = ask(look, repo=f"http://ada:correct-horse@{place}/notes.git").changed(ref="gone")
        with connected_to(prefect_api), pytest.raises(RepoInvalid, match="gone"):
            run_in_prefect(asked, load_settings(), run_id="b4", watch=RunListener())
    with prefect_client(prefect_api) as client:
        named = FlowRunFilter(name=FlowRunFilterName(like_="· b4"))
        found = client.read_flow_runs(flow_run_filter=named)
    known = [run for run in found if run.name.endswith("· b4")]
    assert [run.parameters["repo"] for run in known] == [f"http://***@{place}/notes.git"]
    assert "correct-horse" not in str([run.model_dump() for run in known])


@pytest.mark.prefect
@pytest.mark.docker
def test_a_run_that_goes_on_keeps_its_own_secrets_and_their_gateway(
    own_home: Path, repository: Path, prefect_api: str, model: Callable[..., str], ask: Ask
) -> None:
    from prefect.blocks.system import Secret
    from pydantic import SecretStr

    from flows.execution.wiring import build_dependencies
    from flows.orchestration.compile import compile_blueprint
    from flows.services.prefect_server import prefect_client

    works = blueprint("works", "Works", [agentic("work", "work", prompt=lambda _: "go")])
    flow = compile_blueprint(works, build_dependencies, run_id="b3")
    request = ask(works, model=model(DONE)).changed(repo=str(repository))
    with connected_to(prefect_api), prefect_client(prefect_api) as client:
        Secret(value=SecretStr("key-of-team-a")).save("team-a-key", overwrite=True)
        secrets = {"OPENAI_API_KEY": "team-a-key"}
        begun = client.create_flow_run(
            flow, parameters={"repo": str(repository), "model": request.model, "secrets": secrets}
        )
        settings = load_settings()
        report = run_in_prefect(
            request, settings, run_id="b3", watch=RunListener(), flow_run_id=str(begun.id)
        )
    assert report.status == "success"
    assert [path.name[:8] for path in own_home.glob("gateway*")] == ["gateway-"]


@pytest.mark.prefect
def test_a_flow_run_that_was_deleted_cancels_nothing_and_is_told_in_one_line(
    prefect_api: str,
) -> None:
    # None is deleted here: this server would lose what others tell it of their task runs.
    from flows.orchestration.compile import exit_when_cancelled

    unknown = str(uuid4())
    with (
        pytest.raises(PrefectUnavailable, match=r"does not know the flow run any more") as told,
        connected_to(prefect_api),
        get_client(sync_client=True) as client,
        exit_when_cancelled(unknown, every_s=0.01),
    ):
        sleep(0.2)  # it looks, and goes on
        client.read_flow_run(UUID(unknown))
    assert "\n" not in str(told.value)
