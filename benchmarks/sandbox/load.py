"""Ten thousand commands from eight threads: is every output and every exit code right?"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from benchmarks.row import Row
from contracts.sandbox import Command
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.reap import list_sandboxes
from sandbox.spec import SandboxSpec

COUNT = 10_000
SPEC = SandboxSpec(image=BASE_IMAGE, owner="harness-bench-load", run_id="bench")


def rows() -> Iterator[Row]:
    """Outputs lost, exit codes wrong, containers left."""
    engine = DockerEngine()
    with DockerSandbox.start(engine, SPEC) as sandbox, ThreadPoolExecutor(8) as threads:

        def run(number: int) -> tuple[bool, bool]:
            line = f"echo {number}; echo {number} >&2; exit {number % 256}"
            result = sandbox.exec(Command(argv=("sh", "-c", line), timeout_s=60))
            wanted = b"%d\n" % number
            lost = (result.stdout, result.stderr) != (wanted, wanted)
            return lost, result.exit_code != number % 256

        told = list(threads.map(run, range(COUNT)))
    left = len(list_sandboxes(engine, SPEC.owner))
    lost, wrong = (sum(column) for column in zip(*told, strict=True))
    for name, bad in (
        ("outputs lost", lost),
        ("exit codes wrong", wrong),
        ("containers left", left),
    ):
        yield Row(
            name=f"{name} in {COUNT} execs, 8 threads",
            ours=bad,
            baseline=COUNT,
            ratio=bad / COUNT,
            target="0",
            unit="",
        )
