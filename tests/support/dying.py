"""Blueprints whose process kills itself once, in the middle: `python -m tests.support.dying …`.

As long as `alive` is in the folder, a run in that folder dies where its blueprint says.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from blueprints.dsl import agentic, blueprint, compete, deterministic, parallel, step
from blueprints.types import Blueprint
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Command, Sandbox
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.recall.playbooks import MemoryUnavailable
from flows.runs.home import CHECKPOINT
from memory.types import RecordedRun
from nodes.commands import command, shell
from nodes.types import Agentic
from tests.support.flows import scripted_shop
from tests.support.requested import requested
from tests.support.waiting import wait_until

RUN = "abcd1234"


def talks(_: Path) -> Blueprint:
    """An agent, whose script says where to die."""
    return blueprint("talks", "Talks", [agentic("talk", "talk", prompt=lambda _: "go on")])


def lanes(folder: Path) -> Blueprint:
    """Two lanes; the second dies when the first has come to its end."""

    def dies(_: RunContext, sandbox: Sandbox) -> NodeResult:
        _wait_for(folder, '"left 2"')
        _die_once(folder)
        sandbox.write_file("right.txt", b"right\n")
        return NodeResult.success()

    left = [deterministic(n, n, shell(f"echo {n} >> left.txt")) for n in ("left 1", "left 2")]
    right = [deterministic("right", "right", dies)]
    return blueprint("lanes", "Lanes", [parallel("both", "Both", [left, right])])


def contest(_: Path) -> Blueprint:
    """Two agents that compete; the second dies when the first is judged."""
    steps = [step("answer", command("grep", "-q", "42", "answer.txt"))]
    tried = compete("try", "Try", 2, prompt=lambda _: "go", steps=steps)
    return blueprint("contest", "Contest", [tried])


def reported(_: Path) -> Blueprint:
    """Nodes that come to their end; `forgetful` dies then."""
    return blueprint("reported", "Reported", [deterministic("write", "write", command("true"))])


def forgetful(folder: Path) -> RunDependencies:
    """A dependencies that dies between a run's report and its record."""
    whole = scripted_shop()

    def record(report: RunReport, verdict_later: bool) -> RecordedRun | MemoryUnavailable | None:
        _die_once(folder)
        return whole.memory.record(report, verdict_later)

    return replace(whole, memory=replace(whole.memory, record=record))


def competing(folder: Path) -> RunDependencies:
    """A dependencies whose agents write the answer, and note that they did."""

    def run_agent(node: Agentic, _: RunContext, sandbox: Sandbox) -> NodeResult:
        with (folder / "worked").open("a") as log:
            log.write(f"{node.name}\n")
        if node.name == "try-2":
            _wait_for(folder, '"try-1/answer"')
            _die_once(folder)
        lines = {"try-1": 1, "try-2": 3}[node.name]
        line = f"for i in $(seq {lines}); do echo 42 $i; done > answer.txt && git commit -qam x"
        sandbox.exec(Command(argv=("sh", "-c", line)))
        return NodeResult.success(node.name)

    @contextmanager
    def agents(*_: object) -> Iterator[Callable[[Agentic, RunContext, Sandbox], NodeResult]]:
        yield run_agent

    return replace(scripted_shop(), open_agents=agents)


def _wait_for(folder: Path, text: str) -> None:
    path = folder / "home" / "runs" / RUN / CHECKPOINT
    wait_until(lambda: text in path.read_text())


def _die_once(folder: Path) -> None:
    if (folder / "alive").exists():
        os.kill(os.getpid(), signal.SIGKILL)


BLUEPRINTS = {"talks": talks, "lanes": lanes, "contest": contest, "reported": reported}
SHOPS = {"contest": competing, "reported": forgetful}


if __name__ == "__main__":
    name, place, model = sys.argv[1:]
    there = Path(place)
    (there / "alive").write_text(str(os.getpid()))
    (there / "found.py").write_text(
        f"from pathlib import Path\nfrom tests.support import dying\n"
        f"{name} = dying.{name}(Path({place!r}))\n"
    )
    asked = requested(
        BLUEPRINTS[name](there),
        there / "repository",
        blueprint=f"{there / 'found.py'}:{name}",
        model=model,
    )
    shop = SHOPS.get(name, lambda _: scripted_shop())(there)
    run_blueprint(asked, shop, run_id=RUN)
