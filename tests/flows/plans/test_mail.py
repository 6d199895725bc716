"""Mail: the server needs a valid certificate, and gets the configured password."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.config.policy import MailSettings
from flows.plans.mail import send_mail
from policy.errors import OperationFailed
from policy.plan.operations import Mail
from tests.support.mailbox import Mailbox, mail_server
from tests.support.self_signed import self_signed

MAIL = Mail(to=("ann@example.org",), cc=(), subject="Q2", body="Hello")


@pytest.fixture
def impostor(tmp_path: Path) -> Iterator[Mailbox]:
    """A server that offers TLS with a certificate which nobody vouches for."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(self_signed(tmp_path))
    with mail_server(context) as box:
        yield box


def test_mail_is_not_sent_to_a_server_with_an_untrusted_certificate(
    impostor: Mailbox,
) -> None:
    settings = MailSettings(host="localhost", port=impostor.port, starttls=True)
    with pytest.raises(OperationFailed, match="certificate verify failed"):
        send_mail(MAIL, settings)
    assert impostor.mails == []


def test_mail_is_not_sent_without_the_configured_password() -> None:
    with mail_server() as box:
        settings = MailSettings(port=box.port, user="ann", password="${MAIL_PASSWORD}")
        with pytest.raises(OperationFailed, match="no password for 'ann'"):
            send_mail(MAIL, settings)
        assert box.mails == []
