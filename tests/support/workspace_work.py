"""Work in a sandbox as an agent does it, and what comes out."""

from contracts.sandbox import Command, Sandbox
from sandbox.bundles import unbundle_work
from sandbox.engine import DockerEngine
from sandbox.repos import BaseCommit
from sandbox.workspace import WorkCommit, collect_work

BRANCH = "harness/r-1/fix-tests"
LARGE = "/usr/share /usr/lib/git-core /usr/lib/python3 /usr/lib/*/libnode* /usr/lib/*/libicu*"


def inside(sandbox: Sandbox, line: str) -> str:
    """Run a shell line in the workspace, as an agent would; it must succeed."""
    result = sandbox.exec(Command(argv=("sh", "-c", line)))
    assert result.ok, result.text
    return result.stdout.decode().strip()


def taken(sandbox: Sandbox, base: BaseCommit) -> WorkCommit:
    """The work, of which there is some."""
    work = collect_work(sandbox, base, BRANCH, message="Leftovers")
    assert work is not None
    return work


def unbundled(data: bytes, base: BaseCommit) -> str:
    """The commit of a bundle with these bytes, which is taken as the work."""
    bundle = base.bare.parent / "work.bundle"
    bundle.write_bytes(data)
    return unbundle_work(bundle, base, BRANCH)


def slim(engine: DockerEngine, container: str) -> None:
    """Remove most files of the image, so that those left are soon put down as one layer."""
    run_as_root(engine, container, f"rm -r {LARGE}")


def run_as_root(engine: DockerEngine, container: str, line: str) -> None:
    """Run a shell line in the container as root, which no command of the sandbox can be."""
    with engine.client("run a process in a container") as client:
        made = client.api.exec_create(container, ["sh", "-c", line], user="0")
        client.api.exec_start(made["Id"])
