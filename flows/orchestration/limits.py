"""Limits on concurrent runs, per repository and per model. Runs above a limit are queued.

The limits are Prefect's global concurrency limits: they hold for all workers, and Prefect's page
*Concurrency* shows them. Limits of one deployment are set on the deployment.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from hashlib import sha256
from time import sleep
from uuid import UUID

from httpx import HTTPStatusError, codes
from prefect import State, get_client
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.concurrency.sync import concurrency
from prefect.runtime import flow_run
from prefect.states import Running

from contracts.files import existing_path
from flows.config.settings import LimitSettings
from flows.forge.pulls import parse_remote
from flows.runs.request import ResolvedRequest, absolute_repo, repo_name

QUEUED = "Queued"
"""Name of the state of a flow run that waits for a slot."""


@contextmanager
def wait_for_turn(
    request: ResolvedRequest,
    limits: LimitSettings,
    *,
    queue: Callable[[], AbstractContextManager[None]],
) -> Iterator[None]:
    """Wait for the run's slots, with the flow run in state `Queued`; hold them during the block.

    `queue` is entered first, unless no limit applies.

    Raises:
        KeyboardInterrupt: the flow run was cancelled while it waited.
    """
    wanted = run_limits(request, limits)
    if not wanted:
        yield
        return
    with queue():
        _show(QUEUED, f"waits for a slot of {', '.join(wanted)}")
        with hold_slots(wanted):
            _show("Running", "")
            yield


@contextmanager
def hold_slots(wanted: Mapping[str, int]) -> Iterator[None]:
    """Wait for a slot of each limit; hold the slots during the block. Limits are created or
    updated.

    The slots of a process that died are free again after five minutes.

    Raises:
        KeyboardInterrupt: the current flow run was cancelled while it waited.
    """
    if not wanted:
        yield
        return
    with get_client(sync_client=True) as client:
        for name, number in wanted.items():
            client.upsert_global_concurrency_limit_by_name(name, number)
    with ExitStack() as held:
        while (again_s := _refused(held, list(wanted))) is not None:
            sleep(again_s)
            with get_client(sync_client=True) as client:
                _end_if_cancelled(client.read_flow_run(UUID(flow_run.id)).state)
        yield


def _refused(held: ExitStack, names: list[str]) -> float | None:
    """Request the slots once; return None if granted, else the seconds that the server says to
    wait.

    Prefect's own wait runs in a thread that would take the slot even after an interruption.
    """
    # An outage of the server does not cost a run its slot.
    taken = concurrency(names, max_retries=0, strict=True, raise_on_lease_renewal_failure=False)
    try:
        held.enter_context(taken)
    except ConcurrencySlotAcquisitionError as error:
        match error.__cause__:
            case HTTPStatusError(response=answer) if answer.status_code == codes.LOCKED:
                return float(answer.headers["Retry-After"])
        raise
    return None


def run_limits(request: ResolvedRequest, limits: LimitSettings) -> Mapping[str, int]:
    """Return the limits that apply to this run, by their names on the server."""
    found: dict[str, int] = {}
    if limits.per_repository is not None:
        which = sha256(_one_name(request.repo).encode()).hexdigest()[:6]
        found[f"harness repository {_plain(repo_name(request.repo))} {which}"] = (
            limits.per_repository
        )
    for model in sorted(request.models & limits.per_model.keys()):
        found[f"harness model {_plain(model)}"] = limits.per_model[model]
    return found


def _show(name: str, message: str) -> None:
    shown: State[object] = Running(name=name, message=message)
    with get_client(sync_client=True) as client:
        _end_if_cancelled(client.set_flow_run_state(flow_run.id, shown).state)


def _end_if_cancelled(state: State[object] | None) -> None:
    if state is not None and (state.is_cancelling() or state.is_cancelled()):
        raise KeyboardInterrupt


def _one_name(repo: str) -> str:
    """Return one name for all addresses of a repository: with or without password, HTTPS or SSH."""
    place = None if existing_path(repo) else parse_remote(repo)
    return "/".join(place) if place else absolute_repo(repo)


def _plain(text: str) -> str:
    """Replace the characters that Prefect does not allow in names."""
    return re.sub(r"[^\w.:@ -]", "-", text)
