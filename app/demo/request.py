"""The repository of the demo, and the run that is asked for on it."""

import shutil
from pathlib import Path

from blueprints.find import find_blueprint
from contracts.errors import ModelUnavailable
from flows.config.environment import environment
from flows.config.resolve import resolve_request
from flows.config.settings import Settings
from flows.runs.request import ResolvedRequest, RunRequest
from providers.models import check_key
from sandbox.git import OURS, RuledGit

_HERE = Path(__file__).parent


def make_repository(place: Path) -> Path:
    """A fresh git repository with one commit and one failing test, at `place`."""
    shutil.copytree(_HERE / "repository", place)
    git = RuledGit(place, OURS)
    git.init("--quiet", "--initial-branch=main")
    git.add("--all")
    identity = ["user.name=Harness demo", "user.email=demo@localhost"]
    git(c=identity).commit("--quiet", "-m", "Opening hours")
    return place


def demo_request(repository: Path, settings: Settings) -> ResolvedRequest:
    """fix-tests on it, with the configured model if its key is set, else with a scripted one."""
    given = RunRequest.of(
        blueprint="fix-tests",
        repo=str(repository),
        intent="make the tests pass",
        model=_model(settings),
    )
    return resolve_request(given, find_blueprint("fix-tests"), settings)


def _model(settings: Settings) -> str:
    try:
        check_key(settings.model, environment())
    except ModelUnavailable:
        return f"scripted/{_HERE / 'replies.jsonl'}"
    return settings.model
