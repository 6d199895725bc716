"""Opens the way out of a sandbox: hosts by name, and this machine's package indexes."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from contracts.sandbox import Sandbox
from flows.config.package_clients import client_settings
from flows.config.settings import SandboxSettings
from sandbox.egress import EgressProxy, OnEvent, open_egress
from sandbox.index_routes import Route
from sandbox.indexes import INDEXES, ClientSettings, certificates, find_route


def why_unreachable(sandbox: Sandbox, index: str) -> str:
    """Return why this machine cannot reach a package index, with its host; "" if it can.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    clients = client_settings()
    route = find_route((index,), clients, sandbox)
    reasons = list(route.notices)
    with EgressProxy((), lambda _: None, trusted=route.hosts, proxies=clients.proxies) as proxy:
        for entry in route.hosts:
            host, _, port = entry.rpartition(":")
            reason = proxy.try_host(host, int(port))
            if not reason:
                return ""
            reasons.append(f"{host}: {reason}")
    return reasons[0] if reasons else "Harness has no way out to it"


@contextmanager
def open_way_out(
    sandbox: Sandbox,
    wanted: SandboxSettings,
    blueprint: Sequence[str],
    *,
    is_closed: bool = False,
    indexes: Collection[str] = (),
    on_event: OnEvent,
    on_route: Callable[[Route], None] = lambda _: None,
) -> Iterator[Mapping[str, str]]:
    """Open the hosts and indexes of the settings and the blueprint, and more `indexes`.

    If it `is_closed`, only these `indexes` are opened: the run's commit tracks secrets.
    It gives the variables that lead commands there until the block ends; none if nothing is open.
    `on_route` gets the way to the indexes.
    """
    entries = () if is_closed else (*wanted.egress, *blueprint)
    names = INDEXES.intersection((*entries, *indexes))
    hosts = tuple(entry for entry in entries if entry not in INDEXES)
    if not names and not hosts:
        yield {}
        return
    clients = client_settings() if names else ClientSettings()
    route = find_route(names, clients, sandbox)
    on_route(route)
    bundle = (wanted.ca_bundle,) if wanted.ca_bundle else clients.certificates
    with EgressProxy(
        hosts,
        on_event,
        addresses=wanted.egress_addresses,
        trusted=route.hosts,
        proxies=clients.proxies,
    ) as proxy:
        env = open_egress(sandbox, proxy, certificates=certificates(bundle))
        sandbox.upload_files(route.files)
        yield {**env, **route.env}
