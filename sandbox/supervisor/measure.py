"""How much room the files of the sandbox's users take, measured in a process of its own."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pwd import struct_passwd
from typing import NoReturn

from sandbox.supervisor.process_tree import marked_processes, status_field

KERNEL = ("proc", "sys", "dev")
PIN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
OWNER_MAY_READ = stat.S_IRUSR | stat.S_IXUSR
MAX_OPEN = 32
"""Folders of one path that are held open at a time: trees are deeper than files may be open."""
IN_TRANSIT = b"scm_fds"
"""Descriptors that wait in a socket for a receiver; kernels before 5.11 do not report them."""
DELETED = b" (deleted)"
IN_MEMORY = (b"/memfd:", b"/dev/zero", b"/dev/shm/", b"/SYSV")
"""Mapped files without a name that take no room on the disk."""

LOOKS, PAUSE_S = 25, 0.02
"""How often, and with which pause, a process is looked into before its files count as hidden."""

Inode = tuple[int, int]
"""Device and inode number."""


def measure_and_exit(write_end: int, users: Collection[struct_passwd]) -> NoReturn:
    """Write the bytes that the users' files take, and whether all were seen, as JSON.

    The fork has each user's rights in turn, but its real user stays root: no command may send
    it a signal.
    """
    try:
        os.nice(10)
        files: dict[Inode, int] = {}
        saw_all = True
        for user in users:
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.seteuid(user.pw_uid)
            saw_all &= add_named_files(files, user.pw_uid)
            saw_all &= add_open_files(files, user.pw_uid)
            os.seteuid(0)
        os.write(write_end, json.dumps((sum(files.values()), saw_all)).encode())
    finally:
        os._exit(0)


def add_named_files(files: dict[Inode, int], uid: int) -> bool:
    """Add the bytes of each of the user's inodes that has a name; False if some were not seen."""
    try:
        files.update(named_files(uid))
    except OSError:
        return False
    return True


def named_files(uid: int) -> Iterator[tuple[Inode, int]]:
    """Yield inode and bytes of the user's files in each folder that it can write, or could.

    The owner of a folder can write there before and after any measurement, so a folder that its
    owner may not read is opened up meanwhile. Folders are walked by descriptors, for which no
    path is too long.

    Raises:
        OSError: the way back was lost, because a folder on it was moved or closed.
    """
    path = [Folder("/", None, uid)]
    try:
        while path:
            folder = path[-1]
            yield from folder.files
            folder.files = []
            if folder.subfolders:
                enter(folder.subfolders.pop(), path, uid)
            else:
                if len(path) > 1:
                    path[-2].reopen(folder.fd)
                path.pop().close()
    finally:
        for folder in reversed(path):
            folder.close()


def enter(name: str, path: list[Folder], uid: int) -> None:
    try:
        path.append(Folder(name, path[-1].fd, uid))
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise
    if len(path) > MAX_OPEN:
        path[-MAX_OPEN].close()


class Folder:
    """A folder on the walk: the user's files in it, and the names of its subfolders."""

    def __init__(self, name: str, parent: int | None, uid: int) -> None:
        self.fd = os.open(name, PIN, dir_fd=parent)
        self.original_mode: int | None = None
        self.subfolders: list[str] = []
        self.files: list[tuple[Inode, int]] = []
        self.inode = inode(self.fd)
        try:
            self.is_owned = os.fstat(self.fd).st_uid == uid
            self.make_readable()
            self.read(uid, parent is None, self.is_owned or may_write(self.fd))
        except OSError:
            self.close()
            raise

    def make_readable(self) -> None:
        """Let the owner read the folder for as long as it is held open."""
        if self.is_owned and self.mode() & OWNER_MAY_READ != OWNER_MAY_READ:
            self.original_mode = self.mode()
            self.chmod(self.original_mode | OWNER_MAY_READ)

    def read(self, uid: int, is_root: bool, is_writable: bool) -> None:
        listing = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(listing) as entries:
                for entry in entries:
                    if is_writable:
                        self.add(entry, uid)
                    if entry.is_dir(follow_symlinks=False):
                        self.subfolders.append(entry.name)
        finally:
            os.close(listing)
        if is_root:
            self.subfolders = [name for name in self.subfolders if name not in KERNEL]

    def add(self, entry: os.DirEntry[str], uid: int) -> None:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if found.st_uid == uid:
            self.files.append(((found.st_dev, found.st_ino), found.st_blocks * 512))

    @property
    def path(self) -> str:
        return f"/proc/self/fd/{self.fd}"

    def mode(self) -> int:
        return stat.S_IMODE(os.fstat(self.fd).st_mode)

    def chmod(self, mode: int) -> None:
        os.chmod(self.path, mode)  # noqa: PTH101  no pathlib

    def close(self) -> None:
        """Close it and restore its mode, unless that was changed meanwhile."""
        if self.fd < 0:
            return
        with suppress(OSError):
            if self.original_mode is not None and self.mode() == (
                self.original_mode | OWNER_MAY_READ
            ):
                self.chmod(self.original_mode)
        os.close(self.fd)
        self.fd, self.original_mode = -1, None

    def reopen(self, child: int) -> None:
        """Open it again as the parent of this child.

        Raises:
            OSError: the child was moved, or the parent cannot be opened.
        """
        if self.fd >= 0:
            return
        self.fd = os.open("..", PIN, dir_fd=child)
        if inode(self.fd) != self.inode:
            raise OSError(errno.ESTALE, "moved")
        self.make_readable()


def inode(descriptor: int) -> Inode:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def may_write(folder: int) -> bool:
    try:
        return os.access(".", os.W_OK, dir_fd=folder, effective_ids=True)
    except OSError:
        return False


def add_open_files(files: dict[Inode, int], uid: int) -> bool:
    """Add the bytes of deleted files that processes hold open; False if some were not seen.

    Some are not seen when a process has made itself unreadable, when a descriptor is on its way
    through a socket, and when a deleted file is mapped: its size is not known then.
    """
    hidden = [pid for pid, _ in marked_processes(zombies=True)]
    for _ in range(LOOKS):
        hidden = [pid for pid in hidden if not add_open_files_of(pid, files, uid)]
        if not hidden:
            return True
        # Until a new process executes its program, nobody may look into it.
        time.sleep(PAUSE_S)
    return False


def add_open_files_of(pid: int, files: dict[Inode, int], uid: int) -> bool:
    try:
        return effective_user(pid) != uid or add_of_process(files, f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has ended
    except OSError:
        return False


def add_of_process(files: dict[Inode, int], tasks: str) -> bool:
    """Look at each thread: it may have descriptors of its own, and the first may have ended."""
    saw_all, maps = True, b""
    for task in os.listdir(tasks):  # noqa: PTH208  no pathlib
        with suppress(FileNotFoundError, ProcessLookupError):
            saw_all &= add_of_thread(files, f"{tasks}/{task}")
            maps = maps or content(f"{tasks}/{task}/maps")
    return saw_all and not maps_deleted_file(maps)


def add_of_thread(files: dict[Inode, int], task: str) -> bool:
    saw_all = True
    for name in os.listdir(f"{task}/fd"):  # noqa: PTH208  no pathlib
        with suppress(FileNotFoundError):
            found = os.stat(f"{task}/fd/{name}")  # noqa: PTH116  no pathlib
            if stat.S_ISSOCK(found.st_mode):
                fdinfo = content(f"{task}/fdinfo/{name}")
                saw_all &= int(status_field(fdinfo, IN_TRANSIT) or 0) == 0
            elif found.st_nlink == 0:
                files[found.st_dev, found.st_ino] = found.st_blocks * 512
    return saw_all


def maps_deleted_file(maps: bytes) -> bool:
    names = (line.split(None, 5)[5] for line in maps.splitlines() if line.endswith(DELETED))
    return not all(name.startswith(IN_MEMORY) for name in names)


def effective_user(pid: int) -> int:
    return int(status_field(content(f"/proc/{pid}/status"), b"Uid").split()[1])


def content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  no pathlib
        return file.read()
