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

from sandbox.supervisor.held import add_held, content
from sandbox.supervisor.process_tree import marked

TOLD = 500
"""Marks whose writing is told: what a pipe holds at once."""
KERNEL = ("proc", "sys", "dev")
PIN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
LOOK = stat.S_IRUSR | stat.S_IXUSR
OPEN = 32
"""Folders held open of those that are under way: trees are deeper than files may be open."""


def be_measure(tell: int, users: Collection[struct_passwd]) -> NoReturn:
    """Tell what the files take, if all were seen, and what each mark's processes wrote.

    Nobody can stop us. What they wrote is told as it was before we looked at the files, and as
    it was after.
    We look as each user does, but our real user stays root: no command may send us a signal.
    """
    try:
        os.nice(10)
        files: dict[tuple[int, int], int] = {}
        saw_all = True
        before: Counter[int] = Counter()
        after: Counter[int] = Counter()
        for user in users:
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.seteuid(user.pw_uid)
            before |= written()
            saw_all &= add_named(files, user.pw_uid)
            saw_all &= add_held(files, user.pw_uid)
            after |= written() | written()  # a child reaped during one of them is in the other
            os.seteuid(0)
        wrote = [dict(count.most_common(TOLD)) for count in (before, after)]
        os.write(tell, json.dumps((sum(files.values()), saw_all, *wrote)).encode())
    finally:
        os._exit(0)


def add_named(files: dict[tuple[int, int], int], uid: int) -> bool:
    """Add the bytes of each inode of the user's that has a name; false: not all were seen."""
    try:
        for which, size in named(uid):
            files[which] = size
    except OSError:
        return False
    return True


def named(uid: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Inode and bytes of each file of the user's, in each place where it can write, or could.

    Who owns a place can write there before and after any measurement: one that its owner may
    not look into is opened to us meanwhile. Places are gone through by descriptors, for which
    no path is too long.

    Raises:
        OSError: the way back was lost, because somebody moved or shut a folder on it.
    """
    under_way = [Place("/", None, uid)]
    try:
        while under_way:
            place = under_way[-1]
            yield from place.files
            place.files = []
            if place.inner:
                enter(place.inner.pop(), under_way, uid)
            else:
                if len(under_way) > 1:
                    under_way[-2].come_back(place.fd)
                under_way.pop().let_go()
    finally:
        for place in reversed(under_way):
            place.let_go()


def enter(name: str, under_way: list[Place], uid: int) -> None:
    try:
        under_way.append(Place(name, under_way[-1].fd, uid))
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise
    if len(under_way) > OPEN:
        under_way[-OPEN].let_go()


class Place:
    """A folder that is gone through: the user's files in it, and the names of folders in it."""

    def __init__(self, name: str, within: int | None, uid: int) -> None:
        self.fd = os.open(name, PIN, dir_fd=within)
        self.was_shut: int | None = None
        self.inner: list[str] = []
        self.files: list[tuple[tuple[int, int], int]] = []
        self.inode = inode(self.fd)
        try:
            self.owned = os.fstat(self.fd).st_uid == uid
            self.open_up()
            self.look(uid, within is None, self.owned or may_write(self.fd))
        except OSError:
            self.let_go()
            raise

    def open_up(self) -> None:
        """Let us look into it, for as long as it is held open."""
        if self.owned and self.mode() & LOOK != LOOK:
            self.was_shut = self.mode()
            self.chmod(self.was_shut | LOOK)

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
        os.chmod(self.itself, mode)  # noqa: PTH101  no pathlib

    def let_go(self) -> None:
        """Shut it again, unless somebody gave it another mode meanwhile."""
        if self.fd < 0:
            return
        with suppress(OSError):
            if self.was_shut is not None and self.mode() == self.was_shut | LOOK:
                self.chmod(self.was_shut)
        os.close(self.fd)
        self.fd, self.was_shut = -1, None

    def come_back(self, below: int) -> None:
        """Hold it open again, by way of the folder below.

        Raises:
            OSError: that is somewhere else by now, or shut.
        """
        if self.fd >= 0:
            return
        self.fd = os.open("..", PIN, dir_fd=below)
        if inode(self.fd) != self.inode:
            raise OSError(errno.ESTALE, "moved")
        self.open_up()


def inode(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def may_write(folder: int) -> bool:
    try:
        return os.access(".", os.W_OK, dir_fd=folder, effective_ids=True)
    except OSError:
        return False


def written() -> Counter[int]:
    """Of each mark, what its processes and the children they waited for have written."""
    found: Counter[int] = Counter()
    for pid, mark in marked(zombies=True):
        try:
            words = content(f"/proc/{pid}/io").split()
        except OSError:
            continue
        found[mark] += int(words[words.index(b"write_bytes:") + 1])
    return found
