"""What a run needs to be disturbed in: a home, a server, a repository, an engine maybe its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from app.demo.request import make_repository
from benchmarks.chaos.six_nodes import LOG
from flows import local
from flows.settings import Settings
from tests.sandbox.own_engine import OwnEngine, own_engine

_HARNESS = (sys.executable, "-m", "app")
_BLUEPRINT = f"{Path(__file__).with_name('six_nodes.py')}:six_nodes"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where runs are started. `engine` is one that may be killed, or None for the machine's."""

    place: Path
    settings: Settings
    env: Mapping[str, str]
    engine: OwnEngine | None = None

    @property
    def log(self) -> Path:
        """What nodes noted as they began."""
        return self.place / "log"

    def start(self, run_id: str) -> "subprocess.Popen[bytes]":
        """A run of the six nodes, as a process."""
        asked = ("--repo", str(self.place / "repository"), "--model", f"scripted/{self.script}")
        return self._process("run", _BLUEPRINT, *asked, "--run-id", run_id, "--json")

    def resume(self, run_id: str) -> int:
        """Go on with a run; the exit code."""
        with self._process("runs", "resume", run_id, "--json") as process:
            return process.wait(timeout=300)

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

    def _process(self, *args: str) -> "subprocess.Popen[bytes]":
        with (self.place / "said").open("ab") as said:
            return subprocess.Popen(
                (*_HARNESS, *args), env=self.env, stdout=said, stderr=said, cwd=self.place
            )


@contextmanager
def stage(*, with_engine: bool) -> Iterator[Stage]:
    """A stage of its own, gone when the block ends; an engine of its own takes half a minute."""
    with TemporaryDirectory(prefix="hc-") as folder, ExitStack() as stack:
        place = Path(folder)
        settings = Settings(home=place / "home", server_port=0)
        make_repository(place / "repository")
        engine = _engine(place, stack) if with_engine else None
        env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("HARNESS_", "PREFECT_"))},
            "HARNESS_HOME": str(settings.home),
            "HARNESS_SERVER_PORT": "0",
            "PREFECT_HOME": str(place / "profile"),
            "PREFECT_CLIENT_MAX_RETRIES": "0",
            "DO_NOT_TRACK": "1",
            LOG: str(place / "log"),
            **(engine.env if engine else {}),
        }
        made = Stage(place=place, settings=settings, env=env, engine=engine)
        made.script.write_text("".join(json.dumps(reply) + "\n" for reply in _REPLIES))
        made.log.touch()
        try:
            local.up(settings)
            yield made
        finally:
            subprocess.run((*_HARNESS, "down"), env=env, check=False, capture_output=True)


def wait_for(path: Path, process: "subprocess.Popen[bytes]", within_s: float = 120.0) -> bool:
    """Whether the file appeared before the process ended."""
    give_up = monotonic() + within_s
    while not path.exists():
        if process.poll() is not None or monotonic() > give_up:
            return path.exists()
        sleep(0.005)
    return True


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
