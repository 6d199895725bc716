"""A measurement of the disk: what the users' files take, and which job has written how much."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator
from pwd import struct_passwd
from typing import NoReturn

from sandbox.supervisor.tree import marked

TOLD = 500
"""Marks whose writing is told: what a pipe holds at once."""
KERNEL = ("/proc", "/sys", "/dev")


def be_measure(tell: int, users: Collection[struct_passwd]) -> NoReturn:
    """Tell what the files take, and what each mark's processes wrote; nobody can stop us.

    What they wrote is told as it was before we looked at the files, and as it was after.
    We look as each user does, but our real user stays root: no command may send us a signal.
    """
    try:
        os.setgroups([])
        os.nice(10)
        files: dict[tuple[int, int], int] = {}
        before: Counter[int] = Counter()
        after: Counter[int] = Counter()
        for user in users:
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.seteuid(user.pw_uid)
            before |= written()
            files.update(named(user.pw_uid))
            files.update(unlinked())
            after |= written() | written()  # a child reaped during one of them is in the other
            os.seteuid(0)
        wrote = [dict(count.most_common(TOLD)) for count in (before, after)]
        os.write(tell, json.dumps((sum(files.values()), *wrote)).encode())
    finally:
        os._exit(0)


def named(uid: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Inode and bytes of each file of the user's, in each place where it can write, or could.

    Who owns a place can write there before and after any measurement. What is in one that the
    owner cannot list is not found: that would take a capability which we do without.
    """
    todo = ["/"]
    while todo:
        place = todo.pop()
        try:
            entries = list(os.scandir(place))
        except OSError:
            continue
        todo += [
            e.path for e in entries if e.is_dir(follow_symlinks=False) and e.path not in KERNEL
        ]
        for entry in entries if can_fill(place, uid) else ():
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if found.st_uid == uid:
                yield (found.st_dev, found.st_ino), found.st_blocks * 512


def can_fill(place: str, uid: int) -> bool:
    try:
        return (
            os.access(place, os.W_OK, effective_ids=True)
            or os.stat(place, follow_symlinks=False).st_uid == uid  # noqa: PTH116
        )
    except OSError:
        return False


def unlinked() -> Iterator[tuple[tuple[int, int], int]]:
    """Inode and bytes of what is open and has no name any more."""
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                found = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116
                if found.st_nlink == 0:
                    yield (found.st_dev, found.st_ino), found.st_blocks * 512
        except OSError:
            continue


def written() -> Counter[int]:
    """Of each mark, what its processes and the children they waited for have written."""
    found: Counter[int] = Counter()
    for pid, mark in marked(zombies=True):
        try:
            with open(f"/proc/{pid}/io", "rb", buffering=0) as file:  # noqa: PTH123
                words = file.read().split()
        except OSError:
            continue
        found[mark] += int(words[words.index(b"write_bytes:") + 1])
    return found
