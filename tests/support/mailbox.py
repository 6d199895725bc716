"""A mail server on loopback that keeps what it gets."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from ssl import SSLContext

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session


@dataclass(frozen=True)
class Received:
    """One mail, and everyone that it really went to."""

    to: list[str]
    message: EmailMessage

    @property
    def text(self) -> str:
        return str(self.message.get_content())


@dataclass
class Mailbox:
    """What arrived, and where the server listens."""

    port: int = 0
    mails: list[Received] = field(default_factory=list)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        content = envelope.content if isinstance(envelope.content, bytes) else b""
        message = message_from_bytes(content, policy=policy.default)
        self.mails.append(Received(list(envelope.rcpt_tos), message))
        return "250 kept"


@contextmanager
def mail_server(tls: SSLContext | None = None) -> Iterator[Mailbox]:
    """The server, with STARTTLS where it is given a certificate; stopped when the block ends."""
    box = Mailbox(port=_free_port())
    controller = Controller(box, hostname="127.0.0.1", port=box.port, tls_context=tls)
    controller.start()
    try:
        yield box
    finally:
        controller.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
