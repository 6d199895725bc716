"""What the commands in a sandbox need to install packages through the way out."""

from pathlib import Path

from contracts.sandbox import Sandbox
from sandbox.egress import EgressProxy

CA_FILE = "/var/tmp/harness-ca.pem"  # noqa: S108  inside; any user may write there
"""Where the operator's certificates are found inside."""

_PROXIES = (
    "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
    "npm_config_proxy", "npm_config_https_proxy",
)  # fmt: skip
_CA_FILES = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT",
    "NODE_EXTRA_CA_CERTS", "npm_config_cafile",
)  # fmt: skip


def open_egress(
    sandbox: Sandbox, egress: EgressProxy, *, ca_bundle: Path | None = None
) -> dict[str, str]:
    """Lead a port of the sandbox to the proxy; gives the variables its commands need.

    `ca_bundle` is a file of certificates to trust inside, in place of the image's own: for
    hosts whose network opens TLS with a certificate of its own.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    port = sandbox.forward(0, egress.connect)
    if ca_bundle is None:
        return egress_env(port)
    sandbox.write_file(CA_FILE, ca_bundle.read_bytes())
    return egress_env(port, ca_file=CA_FILE)


def egress_env(port: int, *, ca_file: str | None = None) -> dict[str, str]:
    """Variables that lead pip, npm, git, curl and apt to the proxy at this port inside."""
    proxy, here = f"http://127.0.0.1:{port}", "localhost,127.0.0.1"
    env = dict.fromkeys(_PROXIES, proxy) | {"NO_PROXY": here, "no_proxy": here}
    return env | ({} if ca_file is None else dict.fromkeys(_CA_FILES, ca_file))
