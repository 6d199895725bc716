"""What a kept process was started from, code and keys, as one word that tells no key."""

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
"""Variables that decide which providers can be asked, and how."""

ROOT = Path(__file__).parents[2]

RUN_PACKAGES = tuple(
    ROOT / room
    for room in (
        "contracts", "providers", "sandbox", "memory", "policy", "nodes", "blueprints", "flows"
    )
)  # fmt: skip
"""All that runs are made of."""


def code_version() -> str:
    """Changes when Harness is another one, pages included."""
    return f"{version('harness')} {last_modified((*RUN_PACKAGES, ROOT / 'app'))}"


def fingerprint(secret: str, rooms: Iterable[Path], matters: re.Pattern[str]) -> str:
    """Changes when code in the rooms does, or a variable whose name `matters` finds."""
    env = sorted((k, v) for k, v in environment().items() if matters.search(k))
    told = repr((version("harness"), last_modified(rooms), env)).encode()
    return blake2b(told, key=secret.encode(), digest_size=16).hexdigest()


def settings_fingerprint(settings: BaseModel, secret: SecretStr | None) -> str:
    """Changes when one of these settings does, or the secret among them."""
    known = secret.get_secret_value() if secret else ""
    return sha256(f"{settings.model_dump_json()} {known}".encode()).hexdigest()


def last_modified(rooms: Iterable[Path]) -> float:
    """When the code in the rooms was last changed, which a checkout's version does not tell."""
    return max(path.stat().st_mtime for room in rooms for path in room.rglob("*.py"))
