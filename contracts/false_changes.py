"""Files that git reports as modified although their bytes equal the committed bytes.

When `.gitattributes` asks for a conversion that the committed file does not follow, such as other
line endings, `git status` reports a change and `git add` would commit the conversion.
"""

import re
from collections.abc import Callable, Mapping

from contracts.sandbox import ExecResult

RunGit = Callable[[tuple[str, ...], bytes], ExecResult]
"""Run git in a work tree with these arguments and this stdin."""

_DIFF = ("diff", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff")
_MODIFIED = re.compile(rb":100\d{3} (100\d{3}) ([0-9a-f]+) [0-9a-f]+ M")


def falsely_modified(git: RunGit) -> Mapping[bytes, bytes]:
    """Return path and `update-index -z --index-info` line of each file with unchanged bytes."""
    fields = git(_DIFF, b"").stdout.split(b"\0")
    pairs = zip(fields[::2], fields[1::2], strict=False)
    modified = [(*found.groups(), path) for head, path in pairs if (found := _MODIFIED.match(head))]
    if not modified:
        return {}
    # Paths in octal: hash-object reads one quoted path a line, and a path may hold a newline.
    paths = b"".join(
        b'"%s"\n' % b"".join(b"\\%03o" % byte for byte in path) for _, _, path in modified
    )
    blobs = git(("hash-object", "--no-filters", "--stdin-paths"), paths).stdout.split()
    return {
        path: b"%s %s\t%s\0" % (mode, blob, path)
        # hash-object stops at the first file that it cannot read, so `blobs` may be shorter.
        for (mode, blob, path), actual in zip(modified, blobs, strict=False)
        if actual == blob
    }
