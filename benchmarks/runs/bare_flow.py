"""The baseline: ten tasks in a bare Prefect flow, each one `docker exec` by the API.

Takes the image as its argument. Prints "started" when the flow's first line runs.
"""

import sys

import docker
from docker.models.containers import Container
from prefect import flow, task
from prefect.cache_policies import NO_CACHE


@task(cache_policy=NO_CACHE)
def run_true(container: Container) -> int:
    """One `docker exec true`."""
    return int(container.exec_run(["true"]).exit_code)


@flow(name="bare-ten-tasks")
def ten_tasks(image: str) -> None:
    """A container, ten commands, gone again."""
    print("started", flush=True)
    client = docker.from_env()
    container = client.containers.run(
        image, ["sleep", "600"], detach=True, init=True, network_mode="none"
    )
    try:
        for _ in range(10):
            run_true(container)
    finally:
        container.remove(force=True)


if __name__ == "__main__":
    ten_tasks(sys.argv[1])
