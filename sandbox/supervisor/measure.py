"""A measurement of the disk: what the users' files take, and which job has written how much."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from pwd import struct_passwd
from typing import NoReturn

from sandbox.supervisor.tree import marked

TOLD = 500
"""Marks whose writing is told: what a pipe holds at once."""
KERNEL = ("proc", "sys", "dev")
PIN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
LOOK = stat.S_IRUSR | stat.S_IXUSR
BEYOND_MEASURE = 1 << 62
"""Bytes that are told where what is there cannot be gone through: no limit allows them."""


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
            files.update(found(user.pw_uid))
            files.update(unlinked())
            after |= written() | written()  # a child reaped during one of them is in the other
            os.seteuid(0)
        wrote = [dict(count.most_common(TOLD)) for count in (before, after)]
        os.write(tell, json.dumps((sum(files.values()), *wrote)).encode())
    finally:
        os._exit(0)


def found(uid: int) -> dict[tuple[int, int], int]:
    """Bytes of each inode of the user's that has a name; too deep a tree is too much."""
    try:
        return dict(named(uid))
    except OSError:
        return {(-1, uid): BEYOND_MEASURE}


def named(uid: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Inode and bytes of each file of the user's, in each place where it can write, or could.

    Who owns a place can write there before and after any measurement: one that its owner may
    not look into is opened to us meanwhile. Places are gone through by descriptors, for which
    no path is too long.

    Raises:
        OSError: EMFILE: they are nested deeper than we may have files open.
    """
    under_way = [Place("/", None, uid)]
    while under_way:
        place = under_way[-1]
        yield from place.files
        place.files = []
        if not place.inner:
            under_way.pop().close()
            continue
        try:
            under_way.append(Place(place.inner.pop(), place.fd, uid))
        except OSError as error:
            if error.errno == errno.EMFILE:
                raise


class Place:
    """A folder that is gone through: the user's files in it, and the names of folders in it."""

    def __init__(self, name: str, within: int | None, uid: int) -> None:
        self.fd = os.open(name, PIN, dir_fd=within)
        self.was_shut: int | None = None
        self.inner: list[str] = []
        self.files: list[tuple[tuple[int, int], int]] = []
        try:
            owned = os.fstat(self.fd).st_uid == uid
            if owned and self.mode() & LOOK != LOOK:
                self.was_shut = self.mode()
                self.chmod(self.was_shut | LOOK)
            self.look(uid, within is None, owned or may_write(self.fd))
        except OSError:
            self.close()
            raise

    def look(self, uid: int, is_top: bool, can_fill: bool) -> None:
        listed = os.open(self.itself, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(listed) as entries:
                for entry in entries:
                    if can_fill:
                        self.add(entry, uid)
                    if entry.is_dir(follow_symlinks=False):
                        self.inner.append(entry.name)
        finally:
            os.close(listed)
        if is_top:
            self.inner = [name for name in self.inner if name not in KERNEL]

    def add(self, entry: os.DirEntry[str], uid: int) -> None:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if found.st_uid == uid:
            self.files.append(((found.st_dev, found.st_ino), found.st_blocks * 512))

    @property
    def itself(self) -> str:
        return f"/proc/self/fd/{self.fd}"

    def mode(self) -> int:
        return stat.S_IMODE(os.fstat(self.fd).st_mode)

    def chmod(self, mode: int) -> None:
        os.chmod(self.itself, mode)  # noqa: PTH101

    def close(self) -> None:
        """Shut it again, unless somebody gave it another mode meanwhile."""
        with suppress(OSError):
            if self.was_shut is not None and self.mode() == self.was_shut | LOOK:
                self.chmod(self.was_shut)
        os.close(self.fd)


def may_write(folder: int) -> bool:
    try:
        return os.access(".", os.W_OK, dir_fd=folder, effective_ids=True)
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
