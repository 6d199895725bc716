"""What a shell line would touch outside the sandbox's own files: hosts, and paths it changes.

It reads the line as a careful person would; a line written to hide something can still hide
it. What really holds a command in is the sandbox: no network but the allowed hosts, and
nothing leaves but what is collected at the end.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

NETWORK_PROGRAMS = frozenset({
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
_STARTED = NETWORK_PROGRAMS | _CODE | _SHELLS | {"git", "wget"}
_OPERATORS = frozenset({
    ";", "&", "&&", "|", "||", "(", ")", "{", "}", ";;", "|&", "do", "then", "else", "!", "if",
    "while", "until"
})  # fmt: skip
_CALLS_OUT = re.compile(r"https?:|socket|urllib|requests|httpx|http\.client|fetch\(|net\.|axios")
_URL = re.compile(
    r"://(?<=[a-z0-9+.-]://)(?:[^\s/?#\\@'\"]*@)?\[?([a-z0-9.:-]+?)\]?(?=[:/?#\s'\"]|$)", re.I
)
_HOST = re.compile(r"(?:[^\s@/]+@)?((?:[a-z0-9-]+\.)+[a-z0-9-]+|localhost)(?::|/|$)", re.I)
_LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|::1|0\.0\.0\.0", re.I)
_PARTS = re.compile(r"\$\(|`|\n")
UNKNOWN_HOST = "a host that cannot be told"

MAX_LINE_CHARS = 128 << 10
"""Characters of a line that is read: Linux starts no shell with more of them in one argument."""

_MOST_STARTED = 16
"""Programs that one simple command may start; what starts more may reach anything."""

_DEEPEST = 4
"""Lines inside lines that are read."""


class ShellEffects(NamedTuple):
    """What a line would reach, what it would change, and every word that could be a path."""

    hosts: frozenset[str]
    changed_paths: frozenset[str]
    words: frozenset[str]


def shell_effects(line: str) -> ShellEffects:
    """Read a shell line; loopback is not outside. One that is too long to read reaches UNKNOWN."""
    reading = _Reading()
    if len(line) > MAX_LINE_CHARS or "/dev/tcp/" in line or "/dev/udp/" in line:
        reading.hosts.add(UNKNOWN_HOST)
    if len(line) <= MAX_LINE_CHARS:
        reading.line(line)
    outside = frozenset(host.lower() for host in reading.hosts if not _LOOPBACK.fullmatch(host))
    return ShellEffects(outside, frozenset(reading.changed), frozenset(reading.named))


class _Reading:
    """What was found in a line so far. No line in it is read twice as deep."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.changed: set[str] = set()
        self.named: set[str] = set()
        self._read: dict[str, int] = {}

    def line(self, line: str, depth: int = 0) -> None:
        """Each simple command, those inside `sh -c` and `$(…)` too."""
        if self._read.get(line, _DEEPEST + 1) <= depth:
            return
        self._read[line] = depth
        for part in _PARTS.split(line):
            words: list[str] = []
            for word in [*_words(part), ";"]:
                if word in _OPERATORS:
                    self._started(words, depth)
                    words = []
                else:
                    words.append(word)

    def _started(self, words: list[str], depth: int) -> None:
        """A simple command, and what its words start."""
        lines: list[str] = []
        places = [0, *_launched(words)]
        if len(places) > _MOST_STARTED:
            self.hosts.add(UNKNOWN_HOST)
        for place in places[:_MOST_STARTED]:
            command = _program_first(words[place:])
            if not command:
                continue
            self.named.update(command)
            self.hosts.update(_hosts(command))
            self.changed.update(_changed(command))
            if not lines and posixpath.basename(command[0]) in _SHELLS:  # a later one has fewer
                lines = [word for word in command[1:] if not word.startswith("-")]
        if depth < _DEEPEST:
            for line in (*lines, *_lines_launched(words)):
                self.line(line, depth + 1)


def _launched(words: Sequence[str]) -> Iterator[int]:
    """Where what a launcher may start begins: at each word that is a program."""
    for place, word in enumerate(_arguments(words), 1):
        if posixpath.basename(word) in _STARTED:
            yield place


def _lines_launched(words: Sequence[str]) -> Iterator[str]:
    """The words of a launcher that are lines of their own."""
    for word in _arguments(words):
        inner = word.partition("=")[2] if word.startswith("-") else word
        if " " in inner:
            yield inner.replace('"', " ").replace("'", " ")


def _arguments(words: Sequence[str]) -> Iterator[str]:
    """The words after a launcher, up to a program whose own arguments follow."""
    if any(posixpath.basename(word) in _LAUNCHERS for word in words[:3]):
        yield from takewhile(lambda word: word not in _READERS, words[1:])


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed
        return re.findall(r"[;&|()]+|[^\s;&|()'\"]+", line)


def _program_first(words: Sequence[str]) -> Sequence[str]:
    """The words without assignments and without programs that only start another."""
    at = 0
    while at < len(words) and ("=" in words[at].split("/")[0] or _is_before(words[at])):
        started = _is_before(words[at])
        at += 1
        while started and at < len(words) and (words[at].startswith("-") or words[at].isdigit()):
            at += 1
    return words[at:]


def _is_before(word: str) -> bool:
    return posixpath.basename(word) in _BEFORE


def _hosts(command: Sequence[str]) -> Iterator[str]:
    program, rest = posixpath.basename(command[0]), command[1:]
    text = " ".join(rest)
    urls = [found[1] for found in _URL.finditer(text)]
    git = program == "git" and any(word in _GIT_OUT for word in rest)
    if program in NETWORK_PROGRAMS or git:
        plain = [found[1] for word in rest if (found := _HOST.match(word))]
        yield from urls or plain or [UNKNOWN_HOST]
    elif program in _CODE and _CALLS_OUT.search(text):
        yield from urls or [UNKNOWN_HOST]
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
