"""The repository and the run request of `harness demo`."""

import shutil
from pathlib import Path

from blueprints.find import find_blueprint
from contracts.chat import model_names
from contracts.errors import ModelUnavailable
from flows.config.environment import environment
from flows.config.settings import Settings
from flows.execution.wiring import resolve_request
from flows.runs.request import ResolvedRequest, RunRequest
from providers.models import check_key
from sandbox.git import OURS, RuledGit

_FOLDER = Path(__file__).parent


def make_repository(path: Path) -> Path:
    """Create a git repository with one commit and one failing test at `path`."""
    shutil.copytree(_FOLDER / "repository", path)
    git = RuledGit(path, OURS)
    git.init("--quiet", "--initial-branch=main")
    git.add("--all")
    identity = ["user.name=Harness demo", "user.email=demo@localhost"]
    git(c=identity).commit("--quiet", "-m", "Opening hours")
    return path


def demo_request(repository: Path, settings: Settings) -> ResolvedRequest:
    """Return a fix-tests request; without a key for the configured model, with scripted replies."""
    request = RunRequest.of(
        blueprint="fix-tests",
        repo=str(repository),
        intent="make the tests pass",
        model=_model(settings),
    )
    return resolve_request(request, find_blueprint("fix-tests"), settings)


def _model(settings: Settings) -> str:
    try:
        for model in model_names(settings.model):
            check_key(model, environment())
    except ModelUnavailable:
        return f"scripted/{_FOLDER / 'replies.jsonl'}"
    return settings.model
