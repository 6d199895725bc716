"""What a shell line would touch outside the sandbox's own files: hosts, and paths it changes.

It reads the line as a careful person would; a line written to hide something can still hide
it. What really holds a command in is the sandbox: no network but the allowed hosts, and
nothing leaves but what is collected at the end.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

NETWORK = frozenset({
    "curl", "wget", "nc", "ncat", "netcat", "socat", "ssh", "scp", "sftp", "rsync", "ftp",
    "telnet", "dig", "nslookup", "host", "ping", "sendmail", "mail", "mutt", "gh", "aws",
    "gcloud", "az", "docker"
})  # fmt: skip
"""Programs that do nothing but reach others."""

_GIT_OUT = frozenset({
    "push", "fetch", "pull", "clone", "remote", "ls-remote", "send-email", "submodule"
})  # fmt: skip
_CODE = frozenset({
    "python", "python3", "node", "ruby", "perl", "php", "deno", "bun"
})  # fmt: skip
_SHELLS = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "eval"
})  # fmt: skip
_BEFORE = frozenset({
    "sudo", "env", "xargs", "time", "nohup", "timeout", "exec", "command", "nice", "setsid",
    "stdbuf"
})  # fmt: skip
_LAUNCHERS = _BEFORE | {
    "find", "busybox", "toybox", "watch", "parallel", "su", "runuser", "script", "doas", "chroot",
    "unshare", "flock", "strace", "ltrace", "ionice", "taskset", "chrt", "entr", "awk", "gawk",
}  # fmt: skip
"""Programs that start what their words name, in whatever place."""

_READERS = frozenset({
    "cat", "head", "tail", "less", "more", "grep", "egrep", "fgrep", "rg", "find", "ls", "wc",
    "diff", "stat", "file", "sort", "uniq", "cut", "tree", "echo", "printf", "test", "[", "cd",
    "pytest"
})  # fmt: skip
_GIT_READS = frozenset({
    "add", "commit", "diff", "log", "show", "status", "blame", "grep", "ls-files", "rev-parse"
})  # fmt: skip
_STARTED = NETWORK | _CODE | _SHELLS | {"git", "wget"}
_OPERATORS = frozenset({
    ";", "&", "&&", "|", "||", "(", ")", "{", "}", ";;", "|&", "do", "then", "else", "!", "if",
    "while", "until"
})  # fmt: skip
_CALLS_OUT = re.compile(r"https?:|socket|urllib|requests|httpx|http\.client|fetch\(|net\.|axios")
_URL = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?:[^\s/?#\\@'\"]*@)?\[?([a-z0-9.:-]+?)\]?(?=[:/?#\s'\"]|$)", re.I
)
_HOST = re.compile(r"(?:[^\s@/]+@)?((?:[a-z0-9-]+\.)+[a-z0-9-]+|localhost)(?::|/|$)", re.I)
_LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|::1|0\.0\.0\.0", re.I)
_PARTS = re.compile(r"\$\(|`|\n")
UNKNOWN = "a host that cannot be told"


class Touched(NamedTuple):
    """What a line would reach, what it would change, and every word that could be a path."""

    hosts: frozenset[str]
    changed: frozenset[str]
    named: frozenset[str]


def touched(line: str) -> Touched:
    """Read a shell line; loopback is not outside."""
    hosts: set[str] = set()
    changed: set[str] = set()
    named: set[str] = set()
    for command in _commands(line):
        named.update(command)
        hosts.update(_hosts(command))
        changed.update(_changed(command))
    if "/dev/tcp/" in line or "/dev/udp/" in line:
        hosts.add(UNKNOWN)
    outside = frozenset(host.lower() for host in hosts if not _LOOPBACK.fullmatch(host))
    return Touched(outside, frozenset(changed), frozenset(named))


def _commands(line: str, depth: int = 0) -> Iterator[list[str]]:
    """Each simple command as its words, those inside `sh -c` and `$(…)` too."""
    for part in _PARTS.split(line):
        words: list[str] = []
        for word in [*_words(part), ";"]:
            if word in _OPERATORS:
                yield from _with_inner(words, depth)
                words = []
            else:
                words.append(word)


def _with_inner(words: list[str], depth: int) -> Iterator[list[str]]:
    if depth < 4 and any(posixpath.basename(word) in _LAUNCHERS for word in words[:3]):
        yield from _launched(words, depth)
    command = _program_first(words)
    if not command:
        return
    yield command
    if posixpath.basename(command[0]) in _SHELLS and depth < 4:
        for word in command[1:]:
            if not word.startswith("-"):
                yield from _commands(word, depth + 1)


def _launched(words: list[str], depth: int) -> Iterator[list[str]]:
    """What a launcher may start: from each word on that is a program, or a line of its own."""
    for place, word in enumerate(words[1:], 1):
        if word in _READERS:
            return  # what follows are its arguments
        inner = word.partition("=")[2] if word.startswith("-") else word
        if " " in inner:
            yield from _commands(inner.replace('"', " ").replace("'", " "), depth + 1)
        elif posixpath.basename(word) in _STARTED:
            yield from _with_inner(words[place:], depth + 1)


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed
        return re.findall(r"[;&|()]+|[^\s;&|()'\"]+", line)


def _program_first(words: Sequence[str]) -> list[str]:
    """The words without assignments and without programs that only start another."""
    left = list(words)
    while left and ("=" in left[0].split("/")[0] or posixpath.basename(left[0]) in _BEFORE):
        started = posixpath.basename(left.pop(0)) in _BEFORE
        while started and left and (left[0].startswith("-") or left[0].isdigit()):
            left.pop(0)
    return left


def _hosts(command: Sequence[str]) -> Iterator[str]:
    program, rest = posixpath.basename(command[0]), command[1:]
    text = " ".join(rest)
    urls = [found[1] for found in _URL.finditer(text)]
    git = program == "git" and any(word in _GIT_OUT for word in rest)
    if program in NETWORK or git:
        plain = [found[1] for word in rest if (found := _HOST.match(word))]
        yield from urls or plain or [UNKNOWN]
    elif program in _CODE and _CALLS_OUT.search(text):
        yield from urls or [UNKNOWN]
    elif program not in _READERS:
        yield from urls


def _changed(command: Sequence[str]) -> Iterator[str]:
    for before, word in pairwise(command):
        if before.endswith(">") or before in (">|", "<>"):
            yield word
    program, rest = posixpath.basename(command[0]), command[1:]
    reads = (
        program in _READERS
        or (program == "git" and any(word in _GIT_READS for word in rest))
        or (program == "sed" and not any(word.startswith(("-i", "--in-place")) for word in rest))
    )
    if not reads:
        yield from (word for word in rest if not word.startswith("-"))
