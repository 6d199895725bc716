"""A forwarded port when the other end is hostile, slow or gone."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from contracts.errors import SandboxLost, Unavailable
from contracts.sandbox import Command, OpenInput
from sandbox import wire
from sandbox.container import DockerSandbox
from sandbox.docker_stream import PlainStream
from sandbox.port_forward import PortForward
from sandbox.supervisor.frames import DONE, INPUT, RUN, STDOUT, STOP, TAKEN
from sandbox.supervisor.port_forward import FIRST_CONNECTION, MAX_CONNECTIONS
from sandbox.supervisor_client import SupervisorClient
from sandbox.wire import Frame, FrameReader, encode
from tests.support.waiting import LONG_S


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def docker_frame(data: bytes) -> bytes:
    return bytes([wire.DOCKER_STDOUT, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


class Supervisor:
    """The far end of a link, played by the test."""

    def __init__(self) -> None:
        ours, self._socket = socket.socketpair()
        self._socket.settimeout(LONG_S)
        self._reader, self._frames = FrameReader(), list[Frame]()
        self.link = SupervisorClient(PlainStream(ours))

    def say(self, kind: int, channel: int, payload: bytes = b"") -> None:
        self._socket.sendall(docker_frame(encode(kind, channel, payload)))

    def hear(self, kind: int) -> Frame:
        """The next frame of this kind."""
        while True:
            while self._frames:
                if (frame := self._frames.pop(0)).kind == kind:
                    return frame
            self._frames += self._reader.feed(self._socket.recv(65536))

    def listen(self, connect: Callable[[], socket.socket]) -> int:
        """Have a port forwarded; gives the channel of the port."""
        got: list[int] = []
        asks = threading.Thread(
            target=lambda: got.append(PortForward(self.link, connect).open_port(0))
        )
        asks.start()
        channel = self.hear(RUN).channel
        self.say(STDOUT, channel, number(4000))
        asks.join(LONG_S)
        assert got == [4000]
        return channel

    def close(self) -> None:
        self.link.close()
        self._socket.close()


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    supervisor = Supervisor()
    yield supervisor
    supervisor.close()


@contextmanager
def outside() -> Iterator[tuple[Callable[[], socket.socket], socket.socket]]:
    """A function that connects once, and the far end of that connection."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(LONG_S)
    with theirs, ours:
        yield (lambda: ours), theirs


def test_a_connection_moves_only_after_it_was_taken(supervisor: Supervisor) -> None:
    with outside() as (connect, theirs):
        port = supervisor.listen(connect)
        supervisor.say(STDOUT, port, number(FIRST_CONNECTION))
        assert supervisor.hear(TAKEN).channel == FIRST_CONNECTION
        supervisor.say(STDOUT, FIRST_CONNECTION, b"question")
        assert theirs.recv(100) == b"question"
        theirs.sendall(b"answer")
        assert supervisor.hear(INPUT).payload == b"answer"
        supervisor.say(DONE, FIRST_CONNECTION, b"{}")
        assert theirs.recv(100) == b""


def test_a_port_that_cannot_be_opened_reports_the_reason(supervisor: Supervisor) -> None:
    def refuse() -> None:
        supervisor.say(DONE, supervisor.hear(RUN).channel, b'{"error": "in use"}')

    threading.Thread(target=refuse).start()
    with pytest.raises(Unavailable, match="in use"):
        PortForward(supervisor.link, socket.socket).open_port(4000)


@pytest.mark.parametrize("channel", [0, 1, FIRST_CONNECTION - 1])
def test_a_channel_number_outside_the_supervisors_range_is_refused(
    supervisor: Supervisor, channel: int
) -> None:
    asked: list[bool] = []

    def connect() -> socket.socket:
        asked.append(True)
        raise ConnectionRefusedError

    port = supervisor.listen(connect)
    supervisor.say(STDOUT, port, number(channel))
    assert supervisor.hear(STOP).channel == port
    assert asked == []


def test_a_supervisor_that_opens_connections_without_end_is_stopped(
    supervisor: Supervisor,
) -> None:
    with outside() as (connect, _):
        port = supervisor.listen(connect)
        for more in range(3 * MAX_CONNECTIONS):
            with suppress(OSError):
                supervisor.say(STDOUT, port, number(FIRST_CONNECTION + more))
        while supervisor.hear(STOP).channel != port:
            pass


@pytest.mark.parametrize("flood", [[bytes(65536)] * 64, [b"x" * 60_000] * 5 + [b""] * 400_000])
def test_a_supervisor_that_exceeds_its_window_is_a_lost_sandbox(
    supervisor: Supervisor, flood: list[bytes]
) -> None:
    with outside() as (connect, _):
        port = supervisor.listen(connect)
        supervisor.say(STDOUT, port, number(FIRST_CONNECTION))
        supervisor.hear(TAKEN)

        def send_all() -> None:
            with suppress(OSError):  # nobody reads any more
                for piece in flood:
                    supervisor.say(STDOUT, FIRST_CONNECTION, piece)

        sends = threading.Thread(target=send_all)
        sends.start()
        with pytest.raises(SandboxLost, match="more than it was asked for"):
            supervisor.link.call({}, OpenInput.whole(b""), lambda _kind, _data: None, LONG_S)
        supervisor.link.close()
        sends.join()


def test_a_lost_sandbox_ends_its_connections_also_without_a_reader(
    supervisor: Supervisor,
) -> None:
    with outside() as (connect, theirs):
        port = supervisor.listen(connect)
        supervisor.say(STDOUT, port, number(FIRST_CONNECTION))
        supervisor.hear(TAKEN)
        for _ in range(4):  # more than the socket holds: its writer is stuck
            supervisor.say(STDOUT, FIRST_CONNECTION, bytes(60_000))
        theirs.recv(1, socket.MSG_PEEK)  # it has begun to write
        supervisor.link.close()
        received = b"".join(iter(lambda: theirs.recv(65536), b""))
        assert 0 < len(received) <= 240_000


@pytest.mark.docker
def test_many_connections_wait_their_turn_and_none_is_lost(docker_sandbox: DockerSandbox) -> None:
    def echo(theirs: socket.socket) -> None:
        with theirs:
            theirs.sendall(theirs.recv(9))

    def connect() -> socket.socket:
        ours, theirs = socket.socketpair()
        threading.Thread(target=echo, args=(theirs,)).start()
        return ours

    program = (
        "import socket, sys\n"
        "address = ('127.0.0.1', int(sys.argv[1]))\n"
        "many = [socket.create_connection(address) for _ in range(400)]\n"
        "for n, one in enumerate(many): one.sendall(b'%d' % n)\n"
        "told = [one.recv(9) for one in many[:200]]\n"
        "for one in many[:200]: one.close()\n"
        "told += [one.recv(9) for one in many[200:]]\n"
        "print(told == [b'%d' % n for n in range(400)])\n"
    )
    port = docker_sandbox.forward(0, connect)
    argv = ("python3", "-c", program, str(port))
    result = docker_sandbox.exec(Command(argv=argv, timeout_s=LONG_S))
    assert (result.stdout, result.stderr) == (b"True\n", b"")


@pytest.mark.docker
def test_a_port_listens_on_loopback_only(docker_sandbox: DockerSandbox) -> None:
    port = docker_sandbox.forward(0, socket.socket)
    listening = docker_sandbox.exec(Command(argv=("cat", "/proc/net/tcp"))).text
    assert f"0100007F:{port:04X} 00000000:0000 0A" in listening
    assert "00000000:" + f"{port:04X}" not in listening
