"""What a run needs to be disturbed in: a household, a repository, an engine maybe its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from types import TracebackType
from typing import IO, Protocol, Self

from app.demo.request import make_repository
from benchmarks.chaos.six_nodes import LOG
from flows.config.settings import Settings
from flows.services.local_http import free_port
from tests.support.own_engine import OwnEngine, own_engine

_HARNESS = (sys.executable, "-m", "app")
_PARTS = Path(__file__).parents[1]
_NAMES = ("HARNESS_", "PREFECT_")


class Process(Protocol):
    """A `harness` under way, as `subprocess.Popen` gives it."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def poll(self) -> int | None: ...
    def send_signal(self, sign: signal.Signals, /) -> None: ...
    def kill(self) -> None: ...


Begin = Callable[[tuple[str, ...], Mapping[str, str], Path, IO[bytes]], Process]
"""Starts `harness`: its arguments, environment, folder, and the file that it prints to."""


def in_a_shell(
    args: tuple[str, ...], env: Mapping[str, str], place: Path, said: IO[bytes]
) -> Process:
    """As a person does."""
    return subprocess.Popen((*_HARNESS, *args), env=env, stdout=said, stderr=said, cwd=place)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where runs are started. `engine` is one that may be killed, or None for the machine's."""

    place: Path
    settings: Settings
    chroma: str
    env: Mapping[str, str]
    engine: OwnEngine | None = None
    begin: Begin = in_a_shell

    @property
    def log(self) -> Path:
        """What nodes noted as they began."""
        return self.place / "log"

    @property
    def said(self) -> Path:
        """What the command line printed."""
        return self.place / "said"

    @property
    def logs(self) -> tuple[Path, ...]:
        """Where the household's processes say what they do."""
        return (self.said, *self.settings.home.rglob("*.log"))

    def ask(self, blueprint: str) -> Mapping[str, str]:
        """What the form of `run-blueprint` is given; the blueprint is "part/file.py:name"."""
        return {
            "blueprint": f"{_PARTS}/{blueprint}",
            "repo": str(self.place / "repository"),
            "model": f"scripted/{self.script}",
        }

    def up(self) -> None:
        """Bring up what is not up, as a person or a service manager does after a crash."""
        with self.command("up") as process:
            if process.wait(timeout=300):
                raise RuntimeError(f"`harness up` failed: {self.said.read_text()[-2000:]}")

    def start(self, run_id: str, blueprint: str) -> Process:
        """A run on the command line."""
        asked = self.ask(blueprint)
        options = ("--repo", asked["repo"], "--model", asked["model"], "--run-id", run_id)
        return self.command("run", asked["blueprint"], *options, "--json")

    def command(self, *args: str) -> Process:
        """The command line, begun. A run asks a server that is away once only, to save time."""
        once = {} if args in (("up",), ("down",)) else {"PREFECT_CLIENT_MAX_RETRIES": "0"}
        with self.said.open("ab") as said:
            return self.begin(args, {**self.env, **once}, self.place, said)

    def tree(self, run_id: str) -> str:
        """The tree that the run's branch shows; empty without one."""
        named = f"harness/{run_id}/six-nodes^{{tree}}"
        repository = self.place / "repository"
        asked = ("git", "rev-parse", "--quiet", "--verify", named)
        done = subprocess.run(asked, cwd=repository, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    @property
    def script(self) -> Path:
        """What the agents say."""
        return self.place / "replies.jsonl"


@contextmanager
def stage(*, with_engine: bool, begin: Begin = in_a_shell) -> Iterator[Stage]:
    """A household of its own, gone when the block ends; it is this process's environment meanwhile.

    It has a server, a worker, a gateway and a Chroma server. An engine of
    its own takes half a minute more.
    """
    with TemporaryDirectory(prefix="hc-") as folder, ExitStack() as stack:
        place = Path(folder)
        made = _made(place, _engine(place, stack) if with_engine else None, begin)
        make_repository(place / "repository")
        made.script.write_text("".join(json.dumps(reply) + "\n" for reply in _REPLIES))
        made.log.touch()
        stack.enter_context(_environment(made.env))
        try:
            made.up()
            yield made
        finally:
            with made.command("down") as process:
                process.wait(timeout=300)


def wait_for(path: Path, process: Process, within_s: float = 120.0) -> bool:
    """Whether the file appeared before the process ended."""
    give_up = monotonic() + within_s
    while not path.exists():
        if process.poll() is not None or monotonic() > give_up:
            return path.exists()
        sleep(0.005)
    return True


def _made(place: Path, engine: OwnEngine | None, begin: Begin) -> Stage:
    settings = Settings(home=place / "home", server_port=free_port())
    chroma = f"http://127.0.0.1:{free_port()}"
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(_NAMES)},
        "HARNESS_HOME": str(settings.home),
        "HARNESS_SERVER_PORT": str(settings.server_port),
        "HARNESS_UI__PORT": "0",
        "HARNESS_METRICS_PORT": "0",
        "HARNESS_MEMORY_CHROMA_URL": chroma,
        "HARNESS_ALLOWED_BLUEPRINTS": json.dumps([f"{_PARTS}/*/*.py:*"]),
        "PREFECT_HOME": str(place / "profile"),
        "DO_NOT_TRACK": "1",
        LOG: str(place / "log"),
        **(engine.env if engine else {}),
    }
    return Stage(place=place, settings=settings, chroma=chroma, env=env, engine=engine, begin=begin)


@contextmanager
def _environment(env: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _engine(place: Path, stack: ExitStack) -> OwnEngine:
    (place / "e").mkdir()
    engine = stack.enter_context(own_engine(place / "e"))
    image = subprocess.Popen(("docker", "save", "harness-base:latest"), stdout=subprocess.PIPE)
    with image as saved:
        loaded = engine.docker("load", stdin=saved.stdout.fileno() if saved.stdout else None)
    if loaded.returncode:
        raise RuntimeError(f"the engine takes no image: {loaded.stderr!r}")
    return engine


def _write(answer: str) -> dict[str, object]:
    arguments = {"path": "answer.txt", "content": f"{answer}\n"}
    call = {"function": {"name": "write_file", "arguments": arguments}}
    return {"content": "", "tool_calls": [call]}


_REPLIES = (_write("41"), {"content": "Written."}, _write("42"), {"content": "Mended."})
