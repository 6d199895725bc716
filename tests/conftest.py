"""Every test starts with none of the developer's own settings, and with a home of its own."""

import asyncio
import gc
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from contracts.errors import Unavailable
from flows.config.settings import Settings
from flows.services import gateway, prefect_server
from nodes.agents.table import set_own_agents
from sandbox.engine import DockerEngine
from sandbox.reap import reap
from tests.support.forked import START_DETACHED, STARTING, forking, start_all_by
from tests.support.forks import FORKED_FROM, Fork, fork_from
from tests.support.postgres import pytest_unconfigure
from tests.support.stores import new_store

__all__ = ["pytest_unconfigure"]

_OF_NO_MATTER = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
settings.register_profile("any machine", deadline=None, suppress_health_check=_OF_NO_MATTER)
settings.load_profile("any machine")

LONGEST = (
    "tests/agents/test_real_agents.py",  # may have to build the image that others need too
    "tests/flows/test_chaos.py",
    "tests/app/test_prefect_form.py",
    "tests/app/test_agents.py",
    "tests/agents/test_outages.py",
    "tests/flows/services/test_scale_out.py",
    "tests/sandbox/test_limits.py",
    "tests/flows/host/test_local_stack.py",
    "tests/app/test_end_to_end.py",
    "tests/app/test_stopping.py",
    "tests/flows/audit/test_agent_approvals.py",
    "tests/sandbox/test_another_engine.py",
    "tests/sandbox/test_workspace.py",
    "tests/memory/playbooks/test_concurrent_changes.py",
    "tests/agents/test_approvals.py",
    "tests/flows/services/test_deployed.py",
    "tests/memory/playbooks/test_processes.py",
    "tests/memory/playbooks/test_damage.py",
    "tests/flows/plans/test_approve.py",
    "tests/flows/services/test_zombies.py",
    "tests/memory/vectors/test_embedding.py",
    "tests/flows/services/test_gateway.py",
    "tests/app/test_real_package.py",
    "tests/app/test_prefect_ui.py",
    "tests/app/web/test_flows_of_the_seed.py",
    "tests/blueprints/test_upgrade_deps.py",
    "tests/sandbox/test_hostile_commands.py",
    "tests/sandbox/test_installs.py",
    "tests/app/web/test_in_a_browser.py",
    "tests/sandbox/test_flattened.py",
    "tests/flows/services/test_prefect_server.py",
    "tests/policy/log/test_merge.py",
    "tests/flows/orchestration/test_compile.py",
    "tests/sandbox/test_reap.py",
    "tests/blueprints/test_fix_tests.py",
    "tests/memory/playbooks/test_search.py",
    "tests/flows/services/test_worker.py",
    "tests/memory/playbooks/test_holdout.py",
    "tests/flows/test_upkeep.py",
    "tests/policy/plan/test_properties.py",
    "tests/app/test_bad_input.py",
)
"""Files that are begun first, so that no worker is left with one of them at the end. Those that
wait much, as for an agent that tries again, stand among those that compute."""


ROOT = Path(__file__).parents[1]

FORKS = pytest.StashKey[str]()
"""The name of the process that others are forked from."""

SHARED = pytest.StashKey[Path]()
SHARED_FOLDER = "TESTS_SHARED_FOLDER"
"""The variable with the folder of all workers of pytest."""


def pytest_configure(config: pytest.Config) -> None:
    """One for all workers of pytest, which ends with them all; many workers will ask."""
    gc.disable()  # what is imported and collected now, stays
    if "PYTEST_XDIST_WORKER" in os.environ:
        config.stash[FORKS] = os.environ[FORKED_FROM]
        config.stash[SHARED] = Path(os.environ[SHARED_FOLDER])
        return
    # A shell has what it starts in the background ignore Ctrl-C, which what is tested must hear.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    whole = ExitStack()
    config.add_cleanup(whole.close)
    os.environ[FORKED_FROM] = config.stash[FORKS] = whole.enter_context(
        forking(at_once=bool(config.getoption("numprocesses", None)))
    )
    os.environ[SHARED_FOLDER] = whole.enter_context(TemporaryDirectory(ignore_cleanup_errors=True))
    config.stash[SHARED] = Path(os.environ[SHARED_FOLDER])
    whole.callback(lambda: prefect_server.server_daemon(Settings(home=config.stash[SHARED])).down())


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Of a new clone's tests each worker compiles a share, where else all would compile all."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    for file in files[int(worker[2:]) :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])]:
        with suppress(Exception):  # the collection tells
            import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(LONGEST)))


def pytest_collection_finish() -> None:
    """All tests and what they import stay: they are never searched for garbage again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in list(os.environ):
        if name.startswith(("HARNESS_", "PREFECT_")) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    monkeypatch.setenv("HARNESS_HOME", str(home))
    monkeypatch.setenv("HARNESS_SANDBOX__INSTALL_NETWORK", "false")
    monkeypatch.setenv("HARNESS_FORK_SERVER_IDLE_S", "0")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect-profile"))
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    yield home
    set_own_agents({})
    if (home / "gateway").exists():
        gateway.gateway_daemon(Settings(home=home)).down()
    if (home / "owner").exists():
        with suppress(Unavailable):  # without an engine there is nothing of its either
            reap(DockerEngine(), (home / "owner").read_text(), everything=True)


@pytest.fixture
def own_store(own_home: Path) -> Path:
    """The store of the test's home, with nothing in it."""
    return new_store(own_home / "harness.db")


@pytest.fixture(scope="session", autouse=True)
def no_implicit_event_loop() -> None:
    """Python 3.11 would make one for litellm, unasked, and nobody would close it."""
    asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def fork(request: pytest.FixtureRequest) -> Fork:
    """Begins processes that have imported what they need, which takes each two seconds."""
    return fork_from(request.config.stash[FORKS])


@pytest.fixture(scope="session", autouse=True)
def forked_processes(fork: Fork) -> None:
    """What tests have Harness keep is begun so too."""
    start_all_by(fork)


@pytest.fixture
def from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begins them as people do: for one test of each kind."""
    for room in STARTING:
        monkeypatch.setattr(room, "start_detached", START_DETACHED)


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest) -> Path:
    """A folder of all workers of pytest."""
    return request.config.stash[SHARED]


@pytest.fixture(scope="session")
def prefect_api(shared: Path, forked_processes: None) -> str:
    """The address of a real Prefect server that all workers of pytest share.

    A test that looks at all runs, pools or automations of a server takes `own_api`.
    """
    address = shared / "prefect.url"
    with FileLock(shared / "prefect.lock"):
        if not address.exists():
            settings = Settings(home=shared, server_port=0)
            address.write_text(prefect_server.server_daemon(settings).up().url)
    return address.read_text()


@pytest.fixture(scope="module")
def own_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prefect server that tests of one file use."""
    settings = Settings(home=tmp_path_factory.mktemp("own"), server_port=0)
    yield prefect_server.server_daemon(settings).up().url
    prefect_server.server_daemon(settings).down()
