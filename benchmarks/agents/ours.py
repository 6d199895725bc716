"""The native agent at the tasks, in containers of its own, through a gateway that runs.

`python -m benchmarks.agents.ours URL IMAGE FOLDER` prints the seconds from each reply to the
next request, as JSON.
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.agents.tasks import COUNT, DONE, SET_UP, commands
from benchmarks.gateway.process import SECRET
from contracts.agents import NATIVE
from contracts.chat import ChatRequest, Reply
from contracts.model_access import TokenSpec
from contracts.sandbox import Command
from nodes.agents.native import native_agent
from nodes.agents.types import AgentTask
from providers.client import Gateway
from providers.gateway_api import RunTerms
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.spec import SandboxSpec


def main(url: str, image: str, folder: Path) -> list[float]:
    """Do all tasks, one after the other."""
    steps: list[float] = []
    engine, gateway = DockerEngine(), Gateway(url, SECRET)
    for number in range(COUNT):
        spec = SandboxSpec(image=image, owner="harness-bench", run_id=f"b{number}", ttl_s=300)
        terms = RunTerms(run_id=f"b{number}", trajectory=folder / f"{number}.jsonl")
        model = f"scripted/{_script(folder, number)}"
        with (
            gateway.run(terms) as open_gate,
            open_gate(TokenSpec(node="n", agent=NATIVE, model=model)) as gate,
            DockerSandbox.start(engine, spec) as sandbox,
        ):
            sandbox.exec(Command(argv=("bash", "-c", SET_UP)))
            replied = 0.0

            def complete(request: ChatRequest) -> Reply:
                nonlocal replied
                if replied:
                    steps.append(time.perf_counter() - replied)
                reply = gate.complete(request)
                replied = time.perf_counter()
                return reply

            task = AgentTask(node="n", prompt="Fix it.", model=model)
            assert native_agent(complete)(task, sandbox).output == DONE
    gateway.close()
    return steps


def _script(folder: Path, number: int) -> Path:
    path = folder / f"replies-{number}.jsonl"
    calls = [{"name": "bash", "arguments": {"command": line}} for line in commands(number)]
    replies = [{"content": "", "tool_calls": [{"function": call}]} for call in calls]
    path.write_text("".join(json.dumps(r) + "\n" for r in (*replies, {"content": DONE})))
    return path


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
