"""Sends a notification through a block of Prefect, which keeps its own address and secret."""

import asyncio
from inspect import iscoroutine

from contracts.errors import NotificationFailed


def send_notification(block: str, subject: str, body: str) -> None:
    """Send a notification through the block of this type and name, such as `slack-webhook/team`.

    Raises:
        NotificationFailed: there is no such block, it sends nothing, or it could not send.
    """
    from httpx import HTTPError
    from prefect.blocks.abstract import NotificationBlock, NotificationError
    from prefect.blocks.core import Block

    try:
        found = Block.load(block, _sync=True)  # type: ignore[call-arg]  # of async_dispatch
    except (ValueError, RuntimeError, HTTPError) as error:
        raise NotificationFailed(
            f"block {block!r} cannot be used: create it in Prefect under Blocks"
        ) from error
    if not isinstance(found, NotificationBlock):
        raise NotificationFailed(f"block {block!r} sends no notifications")
    try:
        with found.raise_on_failure():
            sent: object = found.notify(body, subject)  # a coroutine only of some blocks
            if iscoroutine(sent):
                asyncio.run(sent)
    except (NotificationError, ValueError, OSError, HTTPError) as error:
        # The text of the error may have the address, which is a secret of the block.
        raise NotificationFailed(
            f"block {block!r} could not send: {type(error).__name__}"
        ) from error
