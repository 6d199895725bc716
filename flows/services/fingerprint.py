"""Fingerprints of what a daemon was started from: code, settings, keys. They reveal no key."""

import re
from collections.abc import Iterable
from hashlib import blake2b, sha256
from importlib.metadata import version
from pathlib import Path

from pydantic import BaseModel, SecretStr

from flows.config.environment import environment

PROVIDER_VARIABLES = re.compile(
    r"(_API_KEY|_AUTH_TOKEN|_API_BASE|_BASE_URL|_API_VERSION|_PROXY)$"
    r"|^(AWS|AZURE|GOOGLE|VERTEX|VERTEXAI|OLLAMA|SSL_CERT)_",
    re.IGNORECASE,
)
"""Environment variables that decide which model providers can be reached, and how."""

ROOT = Path(__file__).parents[2]

RUN_PACKAGES = tuple(
    ROOT / package
    for package in (
        "contracts", "providers", "sandbox", "memory", "policy", "nodes", "blueprints", "flows"
    )
)  # fmt: skip
"""The code that a run executes."""


def fingerprint(secret: str, packages: Iterable[Path], variables: re.Pattern[str]) -> str:
    """Return a hash of the code of the packages and of the environment variables that match."""
    env = sorted((k, v) for k, v in environment().items() if variables.search(k))
    content = repr((version("harness"), last_modified(packages), env)).encode()
    return blake2b(content, key=secret.encode(), digest_size=16).hexdigest()


def settings_fingerprint(settings: BaseModel, secret: SecretStr | None) -> str:
    """Return a hash of these settings and of the secret among them."""
    value = secret.get_secret_value() if secret else ""
    return sha256(f"{settings.model_dump_json()} {value}".encode()).hexdigest()


def code_version() -> str:
    """Return the version of all code of Harness, pages included."""
    return f"{version('harness')} {last_modified((*RUN_PACKAGES, ROOT / 'app'))}"


def last_modified(packages: Iterable[Path]) -> float:
    """Return the newest modification time of the packages: the version of a checkout is fixed."""
    return max(path.stat().st_mtime for package in packages for path in package.rglob("*.py"))
