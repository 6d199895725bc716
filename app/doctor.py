"""Checks of `harness doctor`. They change nothing, and start nothing but MCP servers."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from contracts.chat import model_names
from contracts.errors import HarnessError
from flows.config.environment import config_file, environment
from flows.config.settings import Settings, load_settings
from flows.execution.mcp import open_server
from flows.execution.wiring import docker_engine
from flows.host import local_stack
from flows.runs.home import check_home
from flows.services import prefect_server
from flows.services.deploy import WORK_POOL, online_workers
from flows.services.prefect_server import prefect_client
from providers.models import check_key
from sandbox.images import BASE_IMAGE, is_current, mcp_recipe

MIN_FREE_GB = 2.0


class Check(NamedTuple):
    """The result of one check."""

    what: str
    ok: bool
    found: str


def check_requirements() -> list[Check]:
    """Check everything that a run needs."""
    settings = load_settings()
    checks: dict[str, Callable[[Settings], str]] = {
        "python": lambda _: sys.version.split()[0],
        "git": _git,
        "settings": lambda _: f"{config_file()}{'' if config_file().exists() else ' (none)'}",
        "home": _home,
        "docker": _docker,
        "image": _image,
        "prefect": _prefect,
        "kept": _daemons,
        "worker": _worker,
        "model": _model,
        **{f"mcp {name}": partial(_mcp_server, name) for name in settings.mcp},
    }
    return [_check(name, check, settings) for name, check in checks.items()]


def _check(name: str, check: Callable[[Settings], str], settings: Settings) -> Check:
    try:
        return Check(name, True, check(settings))
    except (HarnessError, OSError) as error:  # OSError: the home is a file, for example
        return Check(name, False, str(error))


def _git(_: Settings) -> str:
    if shutil.which("git") is None:
        raise HarnessError("no `git` on PATH: install git")
    return subprocess.run(
        ["git", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()


def _home(settings: Settings) -> str:
    check_home(settings.home)
    existing = next(p for p in (settings.home, *settings.home.parents) if p.exists())
    free_gb = shutil.disk_usage(existing).free / 1e9
    if free_gb < MIN_FREE_GB:
        raise HarnessError(f"{existing} has {free_gb:.1f} GB free; runs need {MIN_FREE_GB:g} GB")
    return f"{settings.home} ({free_gb:.0f} GB free)"


def _docker(_: Settings) -> str:
    with docker_engine().client("look for the engine") as client:
        version = client.version()
    return f"{version['Components'][0]['Name']} {version['Version']} at {docker_engine().url}"


def _image(settings: Settings) -> str:
    if settings.sandbox.image is not None:
        return f"{settings.sandbox.image} (from the settings)"
    if not is_current(docker_engine()):
        raise HarnessError(f"{BASE_IMAGE} is missing or out of date: `harness sandbox build`")
    return BASE_IMAGE


def _prefect(settings: Settings) -> str:
    api = prefect_server.current_api_url(settings)
    if api is None:
        return "no local server yet: a run starts one"
    with prefect_client(api) as client:
        return f"{client.api_version()} at {api}"


def _daemons(settings: Settings) -> str:
    crashed = [f"{one.title} died: see {one.log}" for one in local_stack.crashed_daemons(settings)]
    if crashed:
        raise HarnessError(f"{'; '.join(crashed)}. Restart with `harness up`")
    return "no process has died"


def _worker(settings: Settings) -> str:
    api = prefect_server.current_api_url(settings)
    workers = online_workers(api) if api else None
    if workers is None:
        return "no work pool yet: `harness up` creates it, for runs started from Prefect"
    if not workers:
        raise HarnessError(f"the work pool {WORK_POOL!r} has no worker: start one by `harness up`")
    return ", ".join(workers)


def _model(settings: Settings) -> str:
    for model in model_names(settings.model):
        check_key(model, environment())
    return settings.model


def _mcp_server(name: str, settings: Settings) -> str:
    server = settings.mcp[name]
    builds = bool(server.command) and server.image is None
    if builds and not is_current(docker_engine(), mcp_recipe(server.packages)):
        return f"not tried, its image is not built: `harness mcp test {name}` builds it"
    try:
        with open_server(settings, name, docker_engine, run_id="doctor") as opened:
            return f"answers: {len(opened.tools)} tools"
    except HarnessError as error:
        advice = f"see [mcp.{name}] in {config_file()}, then try `harness mcp test {name}`"
        raise HarnessError(f"{error}; {advice}") from error
