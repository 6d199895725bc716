"""Measures inspect-ai's Docker sandbox; runs in the benchmark's own environment.

Prints one JSON object: the figures, or under `refused` why it does not run here.
"""

import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from inspect_ai._util.error import PrerequisiteError  # type: ignore[import-not-found]  # in the benchmark's own environment only
from inspect_ai.util._sandbox.docker.docker import DockerSandboxEnvironment  # type: ignore[import-not-found]  # as above

COMPOSE = (
    "services: {{default: {{image: {image}, command: sleep 600, network_mode: none, init: true}}}}"
)


async def measure(image: str) -> dict[str, float | str]:
    """Milliseconds to start, milliseconds of one command, commands a second from eight at once."""
    with TemporaryDirectory() as place:
        config = str(Path(place, "compose.yaml"))
        Path(config).write_text(COMPOSE.format(image=image))
        try:
            await DockerSandboxEnvironment.task_init("bench", config)
        except PrerequisiteError as error:
            said = str(error.message).removeprefix("ERROR: ").strip()
            return {"refused": said.splitlines()[0]}
        start = time.perf_counter()
        environments = await DockerSandboxEnvironment.sample_init("bench", config, {})
        started = time.perf_counter() - start
        sandbox = environments["default"]
        try:
            one = [await timed(sandbox) for _ in range(30)]
            start = time.perf_counter()
            await asyncio.gather(*(timed(sandbox) for _ in range(80)))
            rate = 80 / (time.perf_counter() - start)
        finally:
            await DockerSandboxEnvironment.sample_cleanup("bench", config, environments, False)
            await DockerSandboxEnvironment.task_cleanup("bench", config, True)
    return {"start_ms": started * 1000, "exec_ms": median(one) * 1000, "per_second": rate}


async def timed(sandbox: DockerSandboxEnvironment) -> float:
    """Seconds of one command."""
    start = time.perf_counter()
    assert (await sandbox.exec(["true"])).success
    return time.perf_counter() - start


logging.disable()
print(json.dumps(asyncio.run(measure(sys.argv[1]))))
