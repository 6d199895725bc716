"""Secrets of one run: stored in Prefect Secret blocks, named in the form, set during the run."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import cast

from prefect.blocks.system import Secret

from contracts.errors import SecretMissing
from flows.config.environment import set_variables
from flows.config.settings import load_settings
from flows.services import gateway


@contextmanager
def secret_variables(blocks: Mapping[str, str]) -> Iterator[None]:
    """Set each environment variable to the value of its Secret block during the block of code.

    Raises:
        SecretMissing: this server has no such block, or its value is not text.
    """
    if not blocks:
        yield
        return
    own_gateway = f"gateway-{sha256(repr(sorted(blocks.items())).encode()).hexdigest()[:8]}"
    secret = {name: _value(block) for name, block in blocks.items()}
    # The keys of one run must not be those of others: it has a gateway of its own.
    with set_variables({**secret, "HARNESS_GATEWAY": own_gateway}):
        try:
            yield
        finally:
            gateway.down_if_idle(load_settings())


def _value(block: str) -> str:
    # Typed as a coroutine; `_sync` makes it none.
    load = cast("Callable[..., Secret[str]]", Secret.load)
    try:
        kept = load(block, _sync=True)
    except ValueError as error:
        raise SecretMissing(
            f"no Secret block {block!r} on this Prefect server: "
            "make it under Blocks, or name another one in the run's secrets"
        ) from error
    value, read = kept.value.get_secret_value(), kept.get()  # a text is read as JSON, if it is
    for text in (read, value):
        if isinstance(text, str):
            return text
    raise SecretMissing(
        f"Secret block {block!r} holds a {type(value).__name__}, and a variable takes text: "
        "write it under Blocks as text, or name another one in the run's secrets"
    )
