"""What processes hold that has no name any more, so that no look at folders finds it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from sandbox.supervisor.process_tree import field, marked

SENT = b"scm_fds"
"""How many descriptors wait in a socket for who takes them; kernels before 5.11 do not tell."""
GONE = b" (deleted)"
IN_MEMORY = (b"/memfd:", b"/dev/zero", b"/dev/shm/", b"/SYSV")
"""What has no name either, and takes nothing of the disk."""


def add_held(files: dict[tuple[int, int], int], uid: int) -> bool:
    """Add the bytes of each inode that the user's processes hold; false: not all were seen.

    That is so of a process that nobody may look into (which any can make of itself), of a
    descriptor that is on its way through a socket, and of what is mapped only: a part of it may
    be, however large it is.
    """
    saw_all = True
    for pid, _ in marked(zombies=True):
        try:
            if effective_user(pid) == uid:
                saw_all &= add_of_process(files, f"/proc/{pid}/task")
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended, and holds nothing
        except OSError:
            saw_all = False
    return saw_all


def add_of_process(files: dict[tuple[int, int], int], tasks: str) -> bool:
    """Each thread may have descriptors of its own, and the first thread may be gone."""
    saw_all, maps = True, b""
    for task in os.listdir(tasks):  # noqa: PTH208  no pathlib
        with suppress(FileNotFoundError, ProcessLookupError):
            saw_all &= add_of_thread(files, f"{tasks}/{task}")
            maps = maps or content(f"{tasks}/{task}/maps")
    return saw_all and not maps_nameless(maps)


def add_of_thread(files: dict[tuple[int, int], int], task: str) -> bool:
    saw_all = True
    for name in os.listdir(f"{task}/fd"):  # noqa: PTH208  no pathlib
        with suppress(FileNotFoundError):
            found = os.stat(f"{task}/fd/{name}")  # noqa: PTH116  no pathlib
            if stat.S_ISSOCK(found.st_mode):
                saw_all &= int(field(content(f"{task}/fdinfo/{name}"), SENT) or 0) == 0
            elif found.st_nlink == 0:
                files[found.st_dev, found.st_ino] = found.st_blocks * 512
    return saw_all


def maps_nameless(maps: bytes) -> bool:
    names = (line.split(None, 5)[5] for line in maps.splitlines() if line.endswith(GONE))
    return not all(name.startswith(IN_MEMORY) for name in names)


def effective_user(pid: int) -> int:
    return int(field(content(f"/proc/{pid}/status"), b"Uid").split()[1])


def content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  no pathlib
        return file.read()
