"""DockerSandbox: one hardened container with a supervisor inside."""

import posixpath
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Self

from contracts.errors import ImageUnavailable, SandboxLost
from contracts.sandbox import (
    DEFAULT_FILE_LIMIT,
    Command,
    Connect,
    ExecResult,
    FileContent,
    OnOutput,
    SnapshotId,
    Stream,
)
from sandbox import files
from sandbox.engine import DockerEngine
from sandbox.output import CommandOutput
from sandbox.port_forward import PortForward, check_port
from sandbox.snapshots import ChangeDetector, SnapshotStore, sandbox_time
from sandbox.spec import SandboxLimits, SandboxSpec, container_labels, create_flags
from sandbox.supervisor.frames import STDERR, STDOUT
from sandbox.supervisor_client import GRACE_S, SupervisorClient, SupervisorSilent

_STREAMS: Mapping[int, Stream] = {STDOUT: "stdout", STDERR: "stderr"}


class DockerSandbox:
    """A `Sandbox` in a container: no network, no mounts, commands run as uid 1000.

    Safe to use from several threads, except that `restore` ends the commands of other threads.
    """

    def __init__(
        self, engine: DockerEngine, spec: SandboxSpec, store: SnapshotStore | None = None
    ) -> None:
        self._engine = engine
        self._spec = spec
        self._store = store or SnapshotStore(engine)
        self._store.acquire()
        self._containers: list[str] = []
        self._forwards: dict[int, Connect] = {}
        self._link: SupervisorClient | None = None
        self._closed = False
        self._touched = ChangeDetector()

    @classmethod
    def start(
        cls,
        engine: DockerEngine,
        spec: SandboxSpec,
        *,
        checkpoint: SnapshotId | None = None,
        store: SnapshotStore | None = None,
    ) -> Self:
        """Start a sandbox, with the files of a checkpoint or else of the image.

        If that fails, no container is left behind.

        Raises:
            DockerUnavailable, ImageUnavailable.
            SandboxLost: the checkpoint is gone, or the container ended at once.
        """
        made = cls(engine, spec, store)
        with made._torn_down_on_error():
            made._boot(checkpoint or spec.image)
        return made

    def fork(self, snapshot: SnapshotId) -> Self:
        """Start another sandbox of the same kind from a snapshot; this one goes on.

        Its forwarded ports are the same.

        Raises:
            SandboxLost: the snapshot is gone.
        """
        forked = type(self)(self._engine, self._spec, self._store)
        forked._forwards = dict(self._forwards)
        with forked._torn_down_on_error():
            forked._boot(snapshot)
        return forked

    @property
    def work_dir(self) -> str:
        """Absolute path of the workspace inside the sandbox."""
        return self._spec.work_dir

    @property
    def container_id(self) -> str:
        """The container's id, for people who look at it with docker."""
        return self._containers[-1] if self._containers else ""

    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        """Run argv in the sandbox and wait for it; see `Sandbox.exec`."""
        output = CommandOutput(command.output_limit, on_output)

        def take(kind: int, chunk: bytes) -> None:
            output.append(_STREAMS[kind], chunk)

        request = {
            "task": "exec",
            "argv": list(command.argv),
            "cwd": posixpath.join(self.work_dir, command.cwd or ""),
            "env": dict(command.env),
            "user": command.user,
            "private": command.private,
            "stuck_after_s": command.stuck_after_s,
            "stacks": command.stacks,
        }
        link, container = self._live_link(), self.container_id
        try:
            report = link.call(request, command.input, take, command.timeout_s)
        except SupervisorSilent as error:
            reason = _not_ended(command, self._spec.limits)
            link.close(reason)
            self._engine.remove(container)
            raise SandboxLost(reason) from error
        ended = report.model_dump(exclude={"error", "errno"})
        return output.add_to(ExecResult(**ended))

    def read_file(self, path: str, limit: int = DEFAULT_FILE_LIMIT) -> bytes:
        """Return the bytes of a regular file; see `Sandbox.read_file`."""
        return files.read_file(self._live_link(), self.work_dir, path, limit=limit)

    def write_file(self, path: str, content: FileContent) -> None:
        """Write the file whole; see `Sandbox.write_file`."""
        self.upload_files({path: content})

    def upload_files(self, files_by_path: Mapping[str, FileContent]) -> None:
        """Write many files; see `Sandbox.upload_files`."""
        files.write_files(self._live_link(), self.work_dir, files_by_path)

    def forward(self, port: int, connect: Connect) -> int:
        """Forward a port inside to sockets on the host; see `Sandbox.forward`."""
        check_port(port)
        port = PortForward(self._live_link(), connect).open_port(port)
        self._forwards[port] = connect
        return port

    def snapshot(self) -> SnapshotId:
        """Save all files as an image; see `Sandbox.snapshot`."""
        self._live_link()
        return self._store.snapshot(self.container_id, container_labels(self._spec))

    def now(self) -> float:
        """Return the time of Docker's clock; see `LastingSandbox.now`."""
        return sandbox_time(self)

    def changed_since(self, moment: float) -> bool:
        """Return whether files changed since then; see `LastingSandbox.changed_since`."""
        return self._touched.since(moment, self)

    def checkpoint(self, ttl_s: float, *, name: str = "") -> SnapshotId:
        """Save all files as an image for `resume` that outlives this process.

        Raises:
            SandboxLost: the sandbox is gone.
        """
        self._live_link()
        labels = container_labels(self._spec)
        return self._store.checkpoint(self.container_id, labels, ttl_s, name=name)

    def restore(self, snapshot: SnapshotId) -> None:
        """Replace the container by one with the files of a snapshot; see `Sandbox.restore`."""
        old, old_link = self.container_id, self._live_link()
        self._boot(snapshot)
        old_link.close()
        self._engine.remove(old)
        self._containers.remove(old)

    def teardown(self) -> None:
        """Remove the container, and the snapshots unless a fork may still need them."""
        if self._link is not None:
            self._link.close()
        while self._containers:
            self._engine.remove(self._containers[-1])
            self._containers.pop()
        if not self._closed:
            self._closed = True
            self._store.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.teardown()

    @contextmanager
    def _torn_down_on_error(self) -> Iterator[None]:
        with ExitStack() as undo:
            undo.callback(self.teardown)
            yield
            undo.pop_all()

    def _boot(self, image: str) -> None:
        flags = create_flags(self._spec) | {"image": image}
        try:
            self._containers.append(self._engine.create(flags))
        except ImageUnavailable as error:
            if image == self._spec.image:
                raise
            raise SandboxLost(f"the snapshot {image!r} is gone") from error
        self._engine.start(self.container_id)
        link = self._greet()
        link.wait_for_hello()
        for port, connect in self._forwards.items():
            PortForward(link, connect).open_port(port)

    def _greet(self) -> SupervisorClient:
        """Attach to the container's stream and send the hello."""
        self._link = SupervisorClient(self._engine.attach(self.container_id))
        self._link.send_hello(ttl_s=self._spec.ttl_s, disk_mb=self._spec.limits.disk_mb)
        return self._link

    def _live_link(self) -> SupervisorClient:
        if self._link is None or self._closed:
            raise SandboxLost("the sandbox was torn down")
        return self._link


def _not_ended(command: Command, limits: SandboxLimits) -> str:
    return (
        f"{shlex.join(command.argv)[:200]!r} ran for its {command.timeout_s:g} s and could not be "
        f"ended within {GRACE_S:g} s more, so its sandbox was removed with everything in it: the "
        f"command may start processes without end (a sandbox may have {limits.pids} of them), or "
        "this machine may be overloaded"
    )
