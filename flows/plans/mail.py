"""Send mail by SMTP."""

import smtplib
from email.message import EmailMessage
from email.utils import make_msgid
from ssl import create_default_context

from flows.config.environment import environment
from flows.config.memory import expand_variables
from flows.config.policy import MailSettings
from policy.errors import OperationFailed
from policy.plan.operations import Mail

_TIMEOUT_S = 30.0


def send_mail(mail: Mail, settings: MailSettings) -> None:
    """Send the mail to its recipients through the configured server.

    Raises:
        OperationFailed: the password is not set, or the server refused the mail.
    """
    try:
        message = _message(mail, settings.sender)
        with smtplib.SMTP(settings.host, settings.port, timeout=_TIMEOUT_S) as server:
            if settings.starttls:
                server.starttls(context=create_default_context())
            if settings.user:
                server.login(settings.user, _password(settings))
            refused = server.send_message(
                message, from_addr=settings.sender, to_addrs=[*mail.to, *mail.cc]
            )
    except (OSError, ValueError, smtplib.SMTPException) as error:
        where = f"{settings.host}:{settings.port}"
        raise OperationFailed(f"the mail was not sent by {where}: {error}") from error
    if refused:
        raise OperationFailed(f"the server refused {', '.join(sorted(refused))}")


def _password(settings: MailSettings) -> str:
    password = expand_variables(settings.password, environment())
    if not password:
        raise OperationFailed(
            f"no password for {settings.user!r}: `[policy.mail] password` is empty, or names a "
            "variable that is not set"
        )
    return password


def _message(mail: Mail, sender: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, ", ".join(mail.to), mail.subject
    if mail.cc:
        message["Cc"] = ", ".join(mail.cc)
    message["Message-ID"] = make_msgid(domain="harness.localhost")
    message.set_content(mail.body)
    for one in mail.attachments:
        # As bytes, because a server may change the line ends of text.
        data, charset = one.text.encode(), {"charset": "utf-8"}
        message.add_attachment(
            data, maintype="text", subtype="plain", params=charset, filename=one.name
        )
    return message
