"""What every sandbox promises of a forwarded port."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

import pytest

from contracts.errors import Unavailable
from contracts.sandbox import Command, Connect, ExecResult, Sandbox
from tests.support.waiting import LONG_S

Talk = Callable[[socket.socket], None]

CLIENT = """
import hashlib, os, socket, sys, time
s = socket.create_connection(("127.0.0.1", {port}))
read = lambda: b"".join(iter(lambda: s.recv(65536), b""))
"""


@contextmanager
def serving(talk: Talk) -> Iterator[Connect]:
    """Connects to a thread that talks; every connection has one of its own."""

    def run(theirs: socket.socket) -> None:
        with closing(theirs), suppress(OSError):
            talk(theirs)

    def connect() -> socket.socket:
        ours, theirs = socket.socketpair()
        threads.submit(run, theirs)
        return ours

    with ThreadPoolExecutor(100) as threads:
        yield connect


def python(sandbox: Sandbox, port: int, program: str) -> ExecResult:
    code = CLIENT.format(port=port) + program
    return sandbox.exec(Command(argv=("python3", "-c", code), timeout_s=LONG_S))


def echo(end: socket.socket) -> None:
    while data := end.recv(65536):
        end.sendall(data)


def test_a_connection_carries_bytes_both_ways_and_either_end_may_close(sandbox: Sandbox) -> None:
    def answer_at_the_end(end: socket.socket) -> None:
        heard = b"".join(iter(lambda: end.recv(65536), b""))
        end.sendall(b"heard " + heard)

    with serving(answer_at_the_end) as connect:
        port = sandbox.forward(0, connect)
        program = "s.sendall(b'all of it'); s.shutdown(1); print(read())"
        assert python(sandbox, port, program).stdout == b"b'heard all of it'\n"


def test_a_half_closed_connection_can_still_send(sandbox: Sandbox) -> None:
    heard: list[bytes] = []

    def greet_and_listen(end: socket.socket) -> None:
        end.sendall(b"hello")
        end.shutdown(socket.SHUT_WR)
        heard.extend(iter(lambda: end.recv(65536), b""))

    with serving(greet_and_listen) as connect:
        port = sandbox.forward(0, connect)
        result = python(sandbox, port, "print(read()); s.sendall(b'bye'); s.close()")
    assert (result.stdout, b"".join(heard)) == (b"b'hello'\n", b"bye")


def test_bytes_arrive_without_waiting_for_more(sandbox: Sandbox) -> None:
    def say_more_once_it_was_heard(end: socket.socket) -> None:
        for number in range(20):
            end.sendall(b"%d\n" % number)
            assert end.recv(1) == b"."

    program = (
        "heard = []\n"
        "for line in s.makefile('rb'): heard.append(int(line)); s.sendall(b'.')\n"
        "print(heard == list(range(20)))"
    )
    with serving(say_more_once_it_was_heard) as connect:
        assert python(sandbox, sandbox.forward(0, connect), program).stdout == b"True\n"


def test_twenty_megabytes_arrive_whole_both_ways(sandbox: Sandbox) -> None:
    program = (
        "import threading\n"
        "data = os.urandom(1 << 20) * 20\n"
        "threading.Thread(target=lambda: (s.sendall(data), s.shutdown(1))).start()\n"
        "print(read() == data)"
    )
    with serving(echo) as connect:
        assert python(sandbox, sandbox.forward(0, connect), program).stdout == b"True\n"


def test_neither_direction_waits_for_the_other(sandbox: Sandbox) -> None:
    def talk_before_listening(end: socket.socket) -> None:
        end.sendall(bytes(5 << 20))
        end.shutdown(socket.SHUT_WR)
        while end.recv(65536):
            pass

    program = (
        "import threading\n"
        "threading.Thread(target=lambda: (s.sendall(bytes(5 << 20)), s.shutdown(1))).start()\n"
        "time.sleep(0.5); print(len(read()))"
    )
    with serving(talk_before_listening) as connect:
        assert python(sandbox, sandbox.forward(0, connect), program).stdout == b"5242880\n"


def test_fifty_connections_at_once_do_not_disturb_each_other(sandbox: Sandbox) -> None:
    program = (
        "many = [socket.create_connection(s.getpeername()) for _ in range(50)]\n"
        "for n, one in enumerate(many): one.sendall(b'%d' % n)\n"
        "print([int(one.recv(10)) for one in many] == list(range(50)))"
    )
    with serving(echo) as connect:
        assert python(sandbox, sandbox.forward(0, connect), program).stdout == b"True\n"


def test_a_slow_reader_blocks_only_its_own_connection(sandbox: Sandbox) -> None:
    def flood_or_echo(end: socket.socket) -> None:
        if end.recv(1) == b"f":
            end.sendall(bytes(30 << 20))
        else:
            end.sendall(b"still here")

    program = (
        "s.sendall(b'f'); time.sleep(0.3)\n"
        "other = socket.create_connection(s.getpeername()); other.sendall(b'e')\n"
        "print(other.recv(20)); other.close(); print(len(read()))"
    )
    with serving(flood_or_echo) as connect:
        result = python(sandbox, sandbox.forward(0, connect), program)
    assert result.stdout.split(b"\n")[:2] == [b"b'still here'", b"%d" % (30 << 20)]


def test_a_failed_connect_is_a_reset_inside(sandbox: Sandbox) -> None:
    def refuse() -> socket.socket:
        raise ConnectionRefusedError("nobody here")

    result = python(sandbox, sandbox.forward(0, refuse), "s.sendall(b'x'); print(read())")
    assert b"ConnectionResetError" in result.stderr


def test_a_connection_broken_inside_is_closed_outside(sandbox: Sandbox) -> None:
    ended = threading.Event()

    def talk_until_it_breaks(end: socket.socket) -> None:
        try:
            while True:
                end.sendall(b"x" * 1000)
        except OSError:
            ended.set()

    with serving(talk_until_it_breaks) as connect:
        python(sandbox, sandbox.forward(0, connect), "print(len(s.recv(10)))")
        assert ended.wait(LONG_S)


def test_a_forwarded_port_works_after_a_restore(sandbox: Sandbox) -> None:
    with serving(echo) as connect:
        port = sandbox.forward(0, connect)
        sandbox.restore(sandbox.snapshot())
        result = python(sandbox, port, "s.sendall(b'again'); print(s.recv(10))")
    assert result.stdout == b"b'again'\n"


def test_a_port_in_use_is_unavailable(sandbox: Sandbox) -> None:
    with serving(echo) as connect:
        port = sandbox.forward(0, connect)
        with pytest.raises(Unavailable, match=str(port)):
            sandbox.forward(port, connect)


@pytest.mark.parametrize("port", [-1, 80, 65536])
def test_a_port_that_needs_privileges_is_refused(sandbox: Sandbox, port: int) -> None:
    with pytest.raises(ValueError, match=str(port)):
        sandbox.forward(port, socket.socket)
