"""How fast files go into a sandbox and come out, beside `docker cp`.

`python -m benchmarks.sandbox.files 1000 100000` moves 1000 MB and 100,000 small files.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.row import Row
from benchmarks.sandbox.speed import SPEC, ratio_row, timed
from contracts.sandbox import Command, Stream
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine

MEGABYTES, SMALL_FILES = 200, 10_000
TARGET = "at most 1.3, loaded 2"


def rows(megabytes: int = MEGABYTES, small_files: int = SMALL_FILES) -> Iterator[Row]:
    """One large file both ways, and many small ones in: nothing takes a folder out."""
    with TemporaryDirectory() as place, DockerSandbox.start(DockerEngine(), SPEC) as sandbox:
        folder = Path(place)
        large, small = folder / "large", folder / "small"
        subprocess.run(
            ["head", "-c", f"{megabytes}M", "/dev/urandom"], stdout=large.open("wb"), check=True
        )
        small.mkdir()
        for number in range(small_files):
            (small / str(number)).write_bytes(b"%d" % number)
        inside = f"{sandbox.container_id}:{sandbox.work_dir}"

        theirs = timed(lambda: _docker_cp(large, f"{inside}/theirs"))
        ours = timed(lambda: sandbox.write_file("ours", large))
        yield ratio_row(
            f"{megabytes} MB into a sandbox, beside docker cp", ours, theirs, TARGET, "ms"
        )
        theirs = timed(lambda: _docker_cp(f"{inside}/theirs", folder / "theirs"))
        ours = timed(lambda: _take(sandbox, "ours", folder / "ours"))
        assert (folder / "ours").stat().st_size == large.stat().st_size
        yield ratio_row(f"{megabytes} MB out of it, beside docker cp", ours, theirs, TARGET, "ms")
        files = {f"many/{path.name}": path for path in small.iterdir()}
        theirs = timed(lambda: _docker_cp(small, f"{inside}/many-theirs"))
        ours = timed(lambda: sandbox.upload_files(files))
        name = f"{small_files:,} small files in, beside docker cp"
        yield ratio_row(name, ours, theirs, TARGET, "ms")
        shutil.rmtree(small)


def _docker_cp(source: Path | str, target: Path | str) -> None:
    argv = ["docker", "cp", str(source), str(target)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _take(sandbox: DockerSandbox, path: str, to: Path) -> None:
    """As work is taken out: the output of a command goes to a file."""
    with to.open("wb") as file:

        def take(_stream: Stream, data: bytes) -> None:
            file.write(data)

        assert sandbox.exec(Command(argv=("cat", path)), take).ok


if __name__ == "__main__":
    for row in rows(*map(int, sys.argv[1:])):
        print(row, flush=True)
