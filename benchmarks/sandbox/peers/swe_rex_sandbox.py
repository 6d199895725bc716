"""Measures SWE-ReX; runs in the benchmark's own environment and prints one JSON object.

Its arguments are an image that has `swerex-remote`, and a network to publish its port on.
"""

import asyncio
import json
import logging
import sys
import time
from statistics import median

from swerex.deployment.docker import DockerDeployment  # type: ignore[import-not-found]  # in the benchmark's own environment only
from swerex.runtime.abstract import Command  # type: ignore[import-not-found]  # as above

TRUE = Command(command=["true"])


async def measure(image: str, network: str) -> dict[str, float]:
    """Milliseconds to start, milliseconds of one command, commands a second from eight at once."""
    start = time.perf_counter()
    deployment = DockerDeployment(image=image, pull="never", docker_args=["--network", network])
    await deployment.start()
    try:
        started = time.perf_counter() - start
        one = [await timed(deployment) for _ in range(100)]
        start = time.perf_counter()
        await asyncio.gather(*(several(deployment, 25) for _ in range(8)))
        rate = 200 / (time.perf_counter() - start)
    finally:
        await deployment.stop()
    return {"start_ms": started * 1000, "exec_ms": median(one) * 1000, "per_second": rate}


async def timed(deployment: DockerDeployment) -> float:
    """Seconds of one command."""
    start = time.perf_counter()
    answer = await deployment.runtime.execute(TRUE)
    assert answer.exit_code == 0
    return time.perf_counter() - start


async def several(deployment: DockerDeployment, count: int) -> None:
    """That many commands, one after the other."""
    for _ in range(count):
        await timed(deployment)


logging.disable()
print(json.dumps(asyncio.run(measure(*sys.argv[1:]))))
