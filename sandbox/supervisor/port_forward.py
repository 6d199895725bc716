"""Ports inside the sandbox whose connections become channels of the stream to the harness.

A port is a request like a job. Its output is the port number, then the channel of each
connection. No bytes move on a connection until the harness sends TAKEN for the first time; then
each side sends as much as the other has room for. An empty STDOUT or INPUT frame ends that
direction, STOP resets the connection, and DONE is the last frame.
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
from functools import partial
from typing import Any

from sandbox.supervisor.frames import CHUNK, DONE, INPUT, STDOUT, STOP, TAKEN

FIRST_CONNECTION = 1 << 31
"""The supervisor numbers its channels from here; the harness numbers its own from 1."""
MAX_CONNECTIONS = 256
"""Open connections of one port; further ones wait in the listening queue."""
CONNECTION_WINDOW = 1 << 18
"""Bytes of one connection in transit, in each direction."""
LOOPBACK = "127.0.0.1"
NUMBER = struct.Struct(">I")
RESET = struct.pack("ii", 1, 0)


class PortForwards:
    """All forwarded ports and their connections."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.channels: dict[int, ForwardedPort | ForwardedConnection] = {}
        self.next_channel = FIRST_CONNECTION

    def open(self, channel: int, request: dict[str, Any]) -> None:
        listener = socket.socket()
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, request["port"]))
            listener.listen(MAX_CONNECTIONS)
        except OSError as error:
            listener.close()
            self.end(channel, {"error": error.strerror})
            return
        self.channels[channel] = ForwardedPort(self, channel, listener)
        self.say(STDOUT, channel, NUMBER.pack(listener.getsockname()[1]))

    def handle(self, kind: int, channel: int, payload: bytes) -> None:
        if channel in self.channels:
            self.channels[channel].handle(kind, payload)

    def say(self, kind: int, channel: int, payload: bytes) -> None:
        self.loop.send(kind, channel, payload)

    def end(self, channel: int, facts: dict[str, Any]) -> None:
        self.channels.pop(channel, None)
        self.say(DONE, channel, json.dumps(facts).encode())


class ForwardedPort:
    """One listening socket."""

    def __init__(self, ports: PortForwards, channel: int, listener: socket.socket) -> None:
        self.ports, self.channel, self.listener = ports, channel, listener
        self.connections = 0
        self.count(0)

    def handle(self, kind: int, _: bytes) -> None:
        if kind == STOP:
            self.ports.loop.unwatch(self.listener)
            self.listener.close()
            self.ports.end(self.channel, {})

    def accept(self) -> None:
        try:
            connected, _ = self.listener.accept()
        except OSError:  # the client hung up, or no descriptor is left
            return
        self.count(+1)
        channel = self.ports.next_channel
        self.ports.next_channel += 1
        self.ports.channels[channel] = ForwardedConnection(self, channel, connected)
        self.ports.say(STDOUT, self.channel, NUMBER.pack(channel))

    def count(self, more: int) -> None:
        self.connections += more
        if self.listener.fileno() < 0:
            return
        if self.connections < MAX_CONNECTIONS:
            self.ports.loop.watch(self.listener, self.accept)
        else:
            self.ports.loop.unwatch(self.listener)


class ForwardedConnection:
    """One accepted socket, and the bytes in transit through it."""

    def __init__(self, port: ForwardedPort, channel: int, connected: socket.socket) -> None:
        self.port, self.channel, self.socket = port, channel, connected
        self.say = partial(port.ports.say, channel=channel)
        self.pending = bytearray()
        self.credit = 0
        self.input_ended = self.output_ended = self.shut = False
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle(self, kind: int, payload: bytes) -> None:
        if kind == STOP:
            self.close({"error": "stopped"})
            return
        if kind == TAKEN:
            self.credit += NUMBER.unpack(payload)[0]
        elif kind == INPUT:
            self.input_ended = not payload
            self.pending += payload
        self.move()

    def move(self) -> None:
        """Move bytes both ways without blocking, and watch for more."""
        try:
            self.offer_input()
            self.forward_output()
        except BlockingIOError:
            pass
        except OSError as error:
            self.close({"error": error.strerror})
            return
        if self.output_ended and self.shut:
            self.close({})
            return
        reading = self.credit > 0 and not self.output_ended
        events = selectors.EVENT_READ * reading | selectors.EVENT_WRITE * bool(self.pending)
        if events:
            self.port.ports.loop.watch(self.socket, self.move, event=events)
        else:
            self.port.ports.loop.unwatch(self.socket)

    def offer_input(self) -> None:
        if self.pending:
            taken = self.send(bytes(self.pending[:CHUNK]))
            del self.pending[:taken]
            if taken:
                self.say(TAKEN, payload=NUMBER.pack(taken))
        if self.input_ended and not self.pending and not self.shut:
            self.shut = True
            self.socket.shutdown(socket.SHUT_WR)

    def send(self, data: bytes) -> int:
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0

    def forward_output(self) -> None:
        if self.credit > 0 and not self.output_ended:
            data = self.socket.recv(min(CHUNK, self.credit))
            self.output_ended = not data
            self.credit -= len(data)
            self.say(STDOUT, payload=data)

    def close(self, facts: dict[str, Any]) -> None:
        """Close the connection; with an error, reset it."""
        if facts:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.port.ports.loop.unwatch(self.socket)
        self.socket.close()
        self.port.count(-1)
        self.port.ports.end(self.channel, facts)
