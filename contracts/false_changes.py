"""Files that git takes for changed though no byte of them is.

Where `.gitattributes` would have a file kept otherwise than the repository has it, such as with
other line ends, git sees a change as soon as it looks, and `git add` makes it one.
"""

import re
from collections.abc import Callable, Mapping

from contracts.sandbox import ExecResult

RunGit = Callable[[tuple[str, ...], bytes], ExecResult]
"""Runs git in a work tree with these arguments, and this on its stdin."""

_CHANGED = ("diff", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff")
_CONTENT = re.compile(rb":100\d{3} (100\d{3}) ([0-9a-f]+) [0-9a-f]+ M")


def falsely_modified(git: RunGit) -> Mapping[bytes, bytes]:
    """Path and line for `update-index -z --index-info` of each such file: its bytes are those of
    its blob in the index, but adding it would make another."""
    parts = git(_CHANGED, b"").stdout.split(b"\0")
    pairs = zip(parts[::2], parts[1::2], strict=False)
    changed = [(*found.groups(), path) for about, path in pairs if (found := _CONTENT.match(about))]
    if not changed:
        return {}
    names = b"".join(b'"%s"\n' % _quoted(path) for _, _, path in changed)
    own = git(("hash-object", "--no-filters", "--stdin-paths"), names).stdout.split()
    return {
        path: b"%s %s\t%s\0" % (mode, blob, path)
        for (mode, blob, path), hashed in zip(changed, own, strict=False)  # up to an unreadable one
        if hashed == blob
    }


def _quoted(path: bytes) -> bytes:
    return b"".join(b"\\%03o" % byte for byte in path)
