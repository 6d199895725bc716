"""The start of each agent, beside the same program started by `docker exec` in the same container.

Both are given one answer, `Done.`, so what is measured is everything around it.
"""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.gateway.process import SECRET
from benchmarks.gateway.rows import start
from benchmarks.row import Row
from contracts.agents import AGENTS, CLI_AGENTS
from contracts.model_access import OpenModelAccess
from contracts.sandbox import Command
from flows.execution.toolchain import agents_image
from nodes.agents.acp import acp_program
from nodes.agents.agent_process import LaunchCommand
from nodes.agents.claude_code import CLAUDE_CODE
from nodes.agents.cli import GATEWAY_PORT, AgentProgram, LaunchContext, cli_agent
from nodes.agents.pi import PI
from nodes.agents.table import agent_rows
from nodes.agents.types import AgentTask, token_spec
from providers.client import Gateway
from providers.gateway_api import RunTerms
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import ensure_image
from sandbox.spec import SandboxSpec

ROUNDS = 3
_HOME = "/tmp/by-hand"  # noqa: S108 - in the sandbox
_OWN = {"claude-code": CLAUDE_CODE, "pi": PI}


class Place(NamedTuple):
    """A container that reaches a gateway with a run, and the script of the model."""

    sandbox: DockerSandbox
    open_access: OpenModelAccess
    model: str


def rows() -> Iterator[Row]:
    """One row for each command-line agent."""
    with ExitStack() as stack:
        place = _place(stack)
        for name in sorted(CLI_AGENTS):
            program = _OWN.get(name) or acp_program(name)
            pairs = [(_ours(place, program), _by_hand(place, program)) for _ in range(ROUNDS)]
            # The least disturbed ones: others may be at work on this machine.
            ours, by_hand = (min(seconds) for seconds in zip(*pairs, strict=True))
            yield Row(
                name=f"start of {name}, beside docker exec",
                ours=ours,
                baseline=by_hand,
                ratio=ours / by_hand,
                target="at most 1.2",
            )


def _place(stack: ExitStack) -> Place:
    folder = Path(stack.enter_context(TemporaryDirectory()))
    script = folder / "replies.jsonl"
    script.write_text('{"content": "Done."}\n' * 100)
    _, url = start(stack, "benchmarks.gateway.process", {})
    gateway, engine = Gateway(url, SECRET), DockerEngine()
    stack.callback(gateway.close)
    terms = RunTerms(run_id="starts", trajectory=folder / "trajectory.jsonl")
    open_access = stack.enter_context(gateway.run(terms))
    image = ensure_image(engine, agents_image(AGENTS), print)
    spec = SandboxSpec(image=image, owner="harness-bench", run_id="starts", ttl_s=900)
    sandbox = stack.enter_context(DockerSandbox.start(engine, spec))
    sandbox.forward(GATEWAY_PORT, gateway.connect)
    return Place(sandbox, open_access, f"scripted/{script}")


def _task(place: Place) -> AgentTask:
    return AgentTask(node="n", prompt="Say that you are done.", model=place.model)


def _ours(place: Place, program: AgentProgram) -> float:
    began = time.perf_counter()
    result = cli_agent(program, place.open_access)(_task(place), place.sandbox)
    assert result.output == "Done.", result
    return time.perf_counter() - began


def _by_hand(place: Place, program: AgentProgram) -> float:
    task = _task(place)
    with place.open_access(token_spec(program.name, task)) as access:
        session = "7c3f1c9e-5a51-4b53-9d4c-1f0a6d1f0a00"
        url = f"http://127.0.0.1:{GATEWAY_PORT}"
        launch = program.launch(
            LaunchContext(task=task, token=access.token, url=url, home=_HOME, session=session)
        )
        files = {path: text.encode() for path, text in launch.files.items()}
        place.sandbox.upload_files(files)
        began = time.perf_counter()
        said = _exec(place.sandbox.container_id, launch, program.name)
        seconds = time.perf_counter() - began
    assert "Done." in said, said
    place.sandbox.exec(Command(argv=("rm", "-r", "-f", _HOME)))
    return seconds


def _exec(container: str, launch: LaunchCommand, agent: str) -> str:
    env = [f"--env={name}={value}" for name, value in launch.env.items()]
    argv = [
        "docker",
        "exec",
        "-i",
        "-u",
        "agent",
        "-w",
        "/workspace",
        *env,
        container,
        *launch.argv,
    ]
    if isinstance(launch.stdin, str):
        return subprocess.run(
            argv, input=launch.stdin, capture_output=True, text=True, check=True
        ).stdout
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        said = _talk(process, agent)
        process.communicate()
    return said


def _talk(process: "subprocess.Popen[str]", agent: str) -> str:
    """Hold the shortest dialogue of ACP; return everything that the agent wrote."""
    row, lines = agent_rows()[agent], list[str]()
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            lines.append(line)
            message = json.loads(line)
            if message.get("id") == method and "method" not in message:
                assert "result" in message, message
                result: Mapping[str, object] = message["result"]
                return result
        raise AssertionError(lines)

    client = {"name": "bench", "version": "1"}
    ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": client})
    if row.auth:
        ask("authenticate", {"methodId": row.auth})
    session = ask("session/new", {"cwd": "/workspace", "mcpServers": []})["sessionId"]
    for text in filter(None, (row.name_session, "Say that you are done.")):
        prompt = [{"type": "text", "text": text}]
        ask("session/prompt", {"sessionId": session, "prompt": prompt})
    return "".join(lines)
