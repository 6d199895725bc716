"""A forwarded port of the scripted sandbox: it listens on this machine's own loopback."""

import socket
import struct
import threading
from contextlib import closing, suppress
from typing import Final

from contracts.errors import Unavailable
from contracts.sandbox import Connect
from sandbox.relay import relay

_RESET: Final = struct.pack("ii", 1, 0)


class LoopbackForward:
    """A listening port, served by a thread of its own; each connection takes one more."""

    def __init__(self, port: int, connect: Connect) -> None:
        try:
            self._listener = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            raise Unavailable(f"wanted port {port} of this machine: {error.strerror}") from error
        self._connect = connect
        self._live: set[socket.socket] = set()
        self.number: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="scripted-port", daemon=True).start()

    def close(self) -> None:
        """Stop listening and end what is connected."""
        for end in (self._listener, *tuple(self._live)):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                inside, _ = self._listener.accept()
                self._live.add(inside)
                threading.Thread(target=self._lead_out, args=(inside,), daemon=True).start()

    def _lead_out(self, inside: socket.socket) -> None:
        with closing(inside):
            try:
                with closing(self._connect()) as outside:
                    relay(inside, outside)
            except OSError:
                inside.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._live.discard(inside)
