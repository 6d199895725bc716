"""Reads a shell line for the hosts it would connect to and the paths it would change.

The reader is a heuristic: a line written to deceive it can hide a host or a path. The sandbox is
the actual barrier: it reaches only allowed hosts, and its changes are checked when the work is
collected (`changed_files.py`).
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
"""Programs whose only purpose is to connect to other machines."""

_GIT_REMOTE_COMMANDS = frozenset({
    "push", "fetch", "pull", "clone", "remote", "ls-remote", "send-email", "submodule"
})  # fmt: skip
_INTERPRETERS = frozenset({
    "python", "python3", "node", "ruby", "perl", "php", "deno", "bun"
})  # fmt: skip
_SHELLS = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "eval"
})  # fmt: skip
_PREFIXES = frozenset({
    "sudo", "env", "xargs", "time", "nohup", "timeout", "exec", "command", "nice", "setsid",
    "stdbuf"
})  # fmt: skip
_LAUNCHERS = _PREFIXES | {
    "find", "busybox", "toybox", "watch", "parallel", "su", "runuser", "script", "doas", "chroot",
    "unshare", "flock", "strace", "ltrace", "ionice", "taskset", "chrt", "entr", "awk", "gawk",
}  # fmt: skip
"""Programs that start another program named anywhere among their arguments."""

_READERS = frozenset({
    "cat", "head", "tail", "less", "more", "grep", "egrep", "fgrep", "rg", "find", "ls", "wc",
    "diff", "stat", "file", "sort", "uniq", "cut", "tree", "echo", "printf", "test", "[", "cd",
    "pytest"
})  # fmt: skip
_GIT_READ_COMMANDS = frozenset({
    "add", "commit", "diff", "log", "show", "status", "blame", "grep", "ls-files", "rev-parse"
})  # fmt: skip
_STARTED = NETWORK_PROGRAMS | _INTERPRETERS | _SHELLS | {"git"}
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
# Each part of a line is read as a command, including the inside of $(…) and `…`.
_PARTS = re.compile(r"\$\(|`|\n")
UNKNOWN_HOST = "an unknown host"

MAX_LINE_CHARS = 128 << 10
"""Linux starts no program with a longer argument (MAX_ARG_STRLEN)."""

# Each start reads the remaining words again: `env sh`, repeated 18,000 times, took days.
_MAX_STARTED = 16
"""Programs started by one simple command; a command that starts more may connect anywhere."""

_MAX_DEPTH = 4
"""Nesting of lines inside lines that is read."""


class ShellEffects(NamedTuple):
    """Hosts that a line would connect to, paths it would change, and all words of its commands."""

    hosts: frozenset[str]
    changed_paths: frozenset[str]
    words: frozenset[str]


def shell_effects(line: str) -> ShellEffects:
    """Read a shell line. Loopback hosts are omitted; a line that is too long gives UNKNOWN_HOST."""
    reader = _Reader()
    if len(line) > MAX_LINE_CHARS or "/dev/tcp/" in line or "/dev/udp/" in line:
        reader.hosts.add(UNKNOWN_HOST)
    if len(line) <= MAX_LINE_CHARS:
        reader.read_line(line)
    outside = frozenset(host.lower() for host in reader.hosts if not _LOOPBACK.fullmatch(host))
    return ShellEffects(outside, frozenset(reader.changed_paths), frozenset(reader.words))


class _Reader:
    """The effects found so far. An inner line is read again only at a smaller depth."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.changed_paths: set[str] = set()
        self.words: set[str] = set()
        self._depths: dict[str, int] = {}

    def read_line(self, line: str, depth: int = 0) -> None:
        """Read each simple command, including those inside `sh -c` and `$(…)`."""
        # The same inner line may occur thousands of times.
        if self._depths.get(line, _MAX_DEPTH + 1) <= depth:
            return
        self._depths[line] = depth
        for part in _PARTS.split(line):
            words: list[str] = []
            for word in [*_words(part), ";"]:
                if word in _OPERATORS:
                    self._read_command(words, depth)
                    words = []
                else:
                    words.append(word)

    def _read_command(self, words: list[str], depth: int) -> None:
        """Read a simple command and the programs that its words start."""
        lines: list[str] = []
        starts = [0, *_launched(words)]
        if len(starts) > _MAX_STARTED:
            self.hosts.add(UNKNOWN_HOST)
        for start in starts[:_MAX_STARTED]:
            command = _without_prefixes(words[start:])
            if not command:
                continue
            self.words.update(command)
            self.hosts.update(_hosts(command))
            self.changed_paths.update(_changed_paths(command))
            if not lines and posixpath.basename(command[0]) in _SHELLS:
                lines = [word for word in command[1:] if not word.startswith("-")]
        if depth < _MAX_DEPTH:
            for line in (*lines, *_launched_lines(words)):
                self.read_line(line, depth + 1)


def _launched(words: Sequence[str]) -> Iterator[int]:
    """Yield the index of each word that a launcher may start as a program."""
    for index, word in enumerate(_launcher_arguments(words), 1):
        if posixpath.basename(word) in _STARTED:
            yield index


def _launched_lines(words: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of a launcher that are shell lines themselves."""
    for word in _launcher_arguments(words):
        inner = word.partition("=")[2] if word.startswith("-") else word
        if " " in inner:
            # So that awk's system("curl example.org") is read as words.
            yield inner.replace('"', " ").replace("'", " ")


def _launcher_arguments(words: Sequence[str]) -> Iterator[str]:
    """Yield the words after a launcher, up to a program whose own arguments follow."""
    if any(posixpath.basename(word) in _LAUNCHERS for word in words[:3]):
        yield from takewhile(lambda word: word not in _READERS, words[1:])


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    # Comments are off: shlex would drop everything after a # inside a word.
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # an unclosed quote
        # Splitting at $( and ` leaves quotes unclosed, so this is common.
        return re.findall(r"[;&|()]+|[^\s;&|()'\"]+", line)


def _without_prefixes(words: Sequence[str]) -> Sequence[str]:
    """Return the words after assignments and after programs such as `sudo` and `timeout 9`."""
    at = 0
    while at < len(words) and ("=" in words[at].split("/")[0] or _is_prefix(words[at])):
        prefix = _is_prefix(words[at])
        at += 1
        while prefix and at < len(words) and (words[at].startswith("-") or words[at].isdigit()):
            at += 1
    return words[at:]


def _is_prefix(word: str) -> bool:
    return posixpath.basename(word) in _PREFIXES


def _hosts(command: Sequence[str]) -> Iterator[str]:
    program, rest = posixpath.basename(command[0]), command[1:]
    text = " ".join(rest)
    urls = [match[1] for match in _URL.finditer(text)]
    git = program == "git" and any(word in _GIT_REMOTE_COMMANDS for word in rest)
    if program in NETWORK_PROGRAMS or git:
        plain = [match[1] for word in rest if (match := _HOST.match(word))]
        yield from urls or plain or [UNKNOWN_HOST]
    elif program in _INTERPRETERS and _CALLS_OUT.search(text):
        yield from urls or [UNKNOWN_HOST]
    elif program not in _READERS:
        yield from urls


def _changed_paths(command: Sequence[str]) -> Iterator[str]:
    for before, word in pairwise(command):
        if before.endswith(">") or before in (">|", "<>"):
            yield word
    program, rest = posixpath.basename(command[0]), command[1:]
    reads = (
        program in _READERS
        or (program == "git" and any(word in _GIT_READ_COMMANDS for word in rest))
        # Without -i, sed usually only prints.
        or (program == "sed" and not any(word.startswith(("-i", "--in-place")) for word in rest))
    )
    if not reads:
        yield from (word for word in rest if not word.startswith("-"))
