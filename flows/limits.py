"""How many runs may go on at once on one repository, or with one model; the others queue.

The limits are Prefect's global concurrency limits, so they hold over all workers, and its page
*Concurrency* shows who has a slot. Limits of one deployment are the deployment's own.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256

from prefect import get_client
from prefect.concurrency.sync import concurrency
from prefect.runtime import flow_run
from prefect.states import Running

from flows.request import RunRequest, models, repo_name, whole_name
from flows.settings import LimitSettings

QUEUED = "Queued"
"""Name of the state of a flow run that waits for its turn."""


@contextmanager
def turn(request: RunRequest, limits: LimitSettings) -> Iterator[None]:
    """Wait until the run may go on, as a flow run that says so; it holds its slots in the block.

    The slots of a process that died are free again after five minutes.
    """
    wanted = limits_for(request, limits)
    if not wanted:
        yield
        return
    client = get_client(sync_client=True)
    for name, number in wanted.items():
        client.upsert_global_concurrency_limit_by_name(name, number)
    _show(QUEUED, f"waits for a slot of {', '.join(wanted)}")
    # A server that is away for a while takes no run's turn away.
    with concurrency(list(wanted), strict=True, raise_on_lease_renewal_failure=False):
        _show("Running", "")
        yield


def limits_for(request: RunRequest, limits: LimitSettings) -> Mapping[str, int]:
    """The limits that this run comes under, by their names on the server."""
    found: dict[str, int] = {}
    if limits.per_repository is not None:
        which = sha256(whole_name(request.repo).encode()).hexdigest()[:6]
        found[f"harness repository {_plain(repo_name(request.repo))} {which}"] = (
            limits.per_repository
        )
    for model in sorted(models(request) & limits.per_model.keys()):
        found[f"harness model {_plain(model)}"] = limits.per_model[model]
    return found


def _show(name: str, message: str) -> None:
    client = get_client(sync_client=True)
    client.set_flow_run_state(flow_run.id, Running(name=name, message=message), force=True)


def _plain(text: str) -> str:
    """Prefect takes no other characters in names."""
    return re.sub(r"[^\w.:@ -]", "-", text)
