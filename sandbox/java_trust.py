"""Certificates for Java, which reads no file of certificates but a store of its own."""

import re

from contracts.errors import SandboxFileError
from contracts.sandbox import Command, Sandbox

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_IMAGES = "/etc/ssl/certs/ca-certificates.crt"
_FOLDER = "/var/tmp/harness-java"  # noqa: S108  inside; any user may write there
_STORE = f"{_FOLDER}/store"
_MOST = 20
"""Certificates that are added; each takes Java half a second."""
_IMPORT = (
    f"cp /etc/ssl/certs/java/cacerts {_STORE} && chmod u+w {_STORE} && for file in {_FOLDER}/*.pem;"
    f" do keytool -importcert -noprompt -keystore {_STORE} -storepass changeit -alias $file"
    " -file $file || exit 1; done"
)


def trust_in_java(sandbox: Sandbox, certificates: bytes) -> str:
    """Have Java trust what the image does not know of these; return the options for it.

    They are empty if there is no Java inside, or nothing to add.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    try:
        known = set(_plain(sandbox.read_file(_IMAGES)))
    except SandboxFileError:
        return ""
    added = [one for one in dict.fromkeys(_plain(certificates)) if one not in known][:_MOST]
    if not added or not sandbox.exec(Command(argv=("which", "keytool"), cwd="/")).ok:
        return ""
    sandbox.upload_files({f"{_FOLDER}/{n}.pem": one for n, one in enumerate(added)})
    imported = sandbox.exec(Command(argv=("sh", "-c", _IMPORT), cwd="/", timeout_s=120.0))
    return f"-Djavax.net.ssl.trustStore={_STORE}" if imported.ok else ""


def _plain(text: bytes) -> list[bytes]:
    return [one.replace(b"\r", b"") for one in _PEM.findall(text)]
