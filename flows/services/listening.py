"""Who answers at a port of this machine: a process we started, or somebody else's."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

_LISTEN = "0A"
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_NEEDED = (_TABLES[0], Path("/proc/thread-self/children"))


def owns_port(pid: int, url: str) -> bool:
    """Whether `pid`, or a process under it, listens at the port of this URL.

    True where nobody can tell: the URL names no port, or the system does not show such things.
    """
    port = urlsplit(url).port
    if port is None or not all(needed.exists() for needed in _NEEDED):
        return True
    theirs = {f"socket:[{inode}]" for inode in _listening_at(port)}
    return any(not theirs.isdisjoint(_open_files(one)) for one in process_tree(pid))


def _listening_at(port: int) -> Iterator[str]:
    for table in _TABLES:
        with suppress(OSError):  # no IPv6 here
            for line in table.read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == _LISTEN and int(local.rpartition(":")[2], 16) == port:
                    yield inode


def _open_files(pid: int) -> Iterator[str]:
    with suppress(OSError):  # it has ended
        for one in Path("/proc", str(pid), "fd").iterdir():
            with suppress(OSError):
                yield str(one.readlink())


def process_tree(pid: int) -> Iterator[int]:
    """The process and all that it started, as far as they are still below it."""
    yield pid
    with suppress(OSError):
        for task in Path("/proc", str(pid), "task").iterdir():
            for child in (task / "children").read_text().split():
                yield from process_tree(int(child))
