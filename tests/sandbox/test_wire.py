"""Frames, and what is not one."""

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from contracts.errors import SandboxLost
from contracts.sandbox import OpenInput
from sandbox import files, wire
from sandbox.docker_stream import PlainStream
from sandbox.port_forward import PortForward
from sandbox.supervisor.frames import CHUNK, DONE, HEADER, MAGIC, RUN, STDERR, STDOUT, TAKEN, WINDOW
from sandbox.supervisor_client import SupervisorClient
from sandbox.wire import DockerReader, Frame, FrameReader, Report, encode
from tests.support.waiting import LONG_S, wait_until


def docker_frame(data: bytes, stream: int = wire.DOCKER_STDOUT) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@contextmanager
def link_to(answer: Callable[[Frame], bytes]) -> Iterator[SupervisorClient]:
    """A link whose other end takes one call, answers its first frame and hangs up."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            reader, frames = FrameReader(), list[Frame]()
            while not frames:
                frames += reader.feed(theirs.recv(65536))
            with suppress(BrokenPipeError):
                theirs.sendall(answer(frames[0]))

    server = threading.Thread(target=serve)
    server.start()
    link = SupervisorClient(PlainStream(ours))
    try:
        yield link
    finally:
        link.close()
        server.join()


@pytest.mark.parametrize("cut", [1, 2, 7, 100])
def test_frames_are_whole_however_they_are_cut(cut: int) -> None:
    frames = [Frame(STDOUT, 1, b"x" * 50), Frame(DONE, 2, b""), Frame(STDOUT, 3, b"end")]
    data = b"".join(docker_frame(encode(*frame)) for frame in frames)
    docker, reader = DockerReader(), FrameReader()
    found = [
        frame
        for start in range(0, len(data), cut)
        for _, piece in docker.feed(data[start : start + cut])
        for frame in reader.feed(piece)
    ]
    assert found == frames


@pytest.mark.parametrize(
    "data",
    [
        b"Traceback (most recent call last)",
        HEADER.pack(MAGIC, STDOUT, 1, 0xFFFFFFFF),
        HEADER.pack(MAGIC, 0, 1, 0),
        HEADER.pack(MAGIC, 99, 1, 0),
    ],
)
def test_invalid_frames_are_refused(data: bytes) -> None:
    with pytest.raises(SandboxLost, match="no frame"):
        list(FrameReader().feed(data))


def test_an_unknown_docker_stream_is_refused() -> None:
    with pytest.raises(SandboxLost, match="no stream"):
        list(DockerReader().feed(b"HTTP/1.1 500 Oh"))


def call(link: SupervisorClient) -> object:
    return link.call({"task": "exec"}, OpenInput.whole(b""), lambda _kind, _data: None, 5)


def test_a_report_ends_a_call() -> None:
    report = json.dumps({"exit_code": 3}).encode()
    with link_to(lambda frame: docker_frame(encode(DONE, frame.channel, report))) as link:
        assert call(link) == Report(exit_code=3)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "gone"),
        (b"\x07garbage", "no stream"),
        (docker_frame(b"garbage!" * 10), "no frame"),
        (docker_frame(encode(DONE, 1, b"half a frame")[:-3]), "inside a frame"),
        (docker_frame(HEADER.pack(MAGIC, STDOUT, 1, 0xFFFFFFFF)), "no frame"),
        (docker_frame(encode(DONE, 1, b"no json")), "no report"),
        (docker_frame(encode(DONE, 1, b"[]")), "no report"),
        (docker_frame(encode(DONE, 1, b"[" * 120_000)), "no report"),
        (docker_frame(encode(DONE, 1, b'{"exit_code": "0"}')), "no report"),
        (docker_frame(b"out of luck", wire.DOCKER_STDERR), "it said: out of luck"),
    ],
)
def test_a_broken_stream_is_a_lost_sandbox(answer: bytes, message: str) -> None:
    with link_to(lambda _: answer) as link, pytest.raises(SandboxLost, match=message):
        call(link)


class Unreadable(PlainStream):
    """A stream whose end no protocol foresees."""

    def receive(self) -> bytes:
        raise ValueError("descriptor out of range")


def test_any_error_in_the_reader_wakes_waiting_callers() -> None:
    ours, theirs = socket.socketpair()
    lost = pytest.raises(SandboxLost, match="out of range")
    with theirs, closing(SupervisorClient(Unreadable(ours))) as link, lost:
        link.wait_for_hello()


@pytest.mark.parametrize("kind", [STDOUT, TAKEN])
def test_a_supervisor_that_exceeds_its_window_is_a_lost_sandbox(kind: int) -> None:
    first = encode(STDOUT, 1, b"x")
    flood = docker_frame(first + encode(kind, 1, b"x" * CHUNK) * (2 * WINDOW // CHUNK))

    def wait_for_the_rest(_kind: int, _data: bytes) -> None:
        wait_until(lambda: link._lost)

    with link_to(lambda _: flood) as link, pytest.raises(SandboxLost, match="more than"):
        link.call({}, OpenInput.whole(b""), wait_for_the_rest, LONG_S)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (encode(STDOUT, 1, b"x" * CHUNK) * 2, "more than was asked"),
        (encode(STDERR, 1, b"x" * CHUNK) + encode(STDERR, 1, b"x"), "more than was asked"),
        (encode(STDERR, 1, b"oh") + encode(DONE, 1, b"{}"), "no report"),
        (encode(STDERR, 1, b"[]") + encode(DONE, 1, b"{}"), "no report"),
    ],
)
def test_an_invalid_answer_to_a_file_request_is_a_lost_sandbox(answer: bytes, message: str) -> None:
    with link_to(lambda _: docker_frame(answer)) as link, pytest.raises(SandboxLost, match=message):
        files.read_file(link, "/workspace", "f", limit=10)


@pytest.mark.parametrize("number", [b"\1", b"\1" * 400])
def test_a_port_of_any_other_length_is_a_lost_sandbox(number: bytes) -> None:
    with link_to(lambda _: docker_frame(encode(STDOUT, 1, number))) as link:
        forward = PortForward(link, socket.socket)
        with pytest.raises(SandboxLost, match="for a port"):
            forward.open_port(0)


def test_a_request_holds_any_argument() -> None:
    sent: list[bytes] = []

    def keep(frame: Frame) -> bytes:
        assert frame.kind == RUN
        sent.append(frame.payload)
        return docker_frame(encode(DONE, frame.channel, b"{}"))

    with link_to(keep) as link:
        link.call({"argv": ["\udcff", "ü"]}, OpenInput.whole(b""), lambda _kind, _data: None, None)
    request = {"argv": ["\udcff", "ü"], "timeout_s": None, "input": False}
    assert json.loads(sent[0]) == request


@contextmanager
def interrupted_by(number: signal.Signals) -> Iterator[None]:
    before = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_a_send_that_is_cut_short_loses_the_sandbox() -> None:
    ours, theirs = socket.socketpair()
    link = SupervisorClient(PlainStream(ours))
    sender = threading.get_ident()

    def interrupt_the_send() -> None:
        theirs.recv(1, socket.MSG_PEEK)
        signal.pthread_kill(sender, signal.SIGUSR1)

    with theirs, closing(link), interrupted_by(signal.SIGUSR1):
        threading.Thread(target=interrupt_the_send).start()
        with pytest.raises(KeyboardInterrupt):  # nobody reads at the far end
            link.call(
                {"argv": ["x" * (8 << 20)]}, OpenInput.whole(b""), lambda _kind, _data: None, None
            )
        with pytest.raises(SandboxLost, match="cut short"):
            call(link)


def test_a_request_too_large_to_send_is_refused_and_the_link_goes_on() -> None:
    with link_to(lambda frame: docker_frame(encode(DONE, frame.channel, b"{}"))) as link:
        with pytest.raises(ValueError, match="wanted up to"):
            link.call(
                {"argv": ["x" * (17 << 20)]}, OpenInput.whole(b""), lambda _kind, _data: None, None
            )
        assert call(link) == Report()
