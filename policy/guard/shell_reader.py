"""Reads which hosts the programs of a shell line contact, for an agent that has read a secret.

The reader is a heuristic: a line written to deceive it can hide a program. The sandbox reaches only
allowed hosts, whatever the line says; with tracked secrets the way out is closed by default.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence

NETWORK_PROGRAMS = frozenset({
    "curl", "wget", "nc", "ncat", "netcat", "socat", "ssh", "scp", "sftp", "rsync", "ftp",
    "telnet", "dig", "nslookup", "host", "ping", "sendmail", "mail", "mutt", "gh", "aws",
    "gcloud", "az"
})  # fmt: skip
"""Programs whose only purpose is to contact other machines."""

_GIT_COMMANDS = frozenset({
    "push", "fetch", "pull", "clone", "ls-remote", "send-email", "submodule"
})  # fmt: skip
_INTERPRETERS = frozenset({"python", "python3", "node", "ruby", "perl", "php", "deno", "bun"})
_CALLS_OUT = re.compile(r"socket|urllib|requests|httpx|http\.client|fetch\(|net\.|axios|LWP")
_LAUNCHERS = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "eval", "sudo", "env", "xargs", "time", "nohup", "timeout",
    "exec", "command", "nice", "setsid", "stdbuf", "find", "busybox", "watch", "parallel", "su",
    "script", "awk",
})  # fmt: skip
"""Programs that start another program named anywhere among their arguments."""

_URL = re.compile(r"://(?:[^\s/?#\\@'\"]*@)?\[?([a-z0-9.:-]+?)\]?(?=[:/?#\s'\"]|$)", re.I)
_HOST = re.compile(r"(?:[^\s@/]+@)?((?:[a-z0-9-]+\.)+[a-z0-9-]+|localhost)(?::|/|$)", re.I)
_LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|::1|0\.0\.0\.0", re.I)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BEFORE_COMMAND = frozenset({"do", "then", "else", "!", "if", "while", "until", "{"})
_SEPARATORS = re.compile(r"[;&|()\n`]+|\$\(")
UNKNOWN_HOST = "an unknown host"

MAX_LINE_CHARS = 128 << 10
"""Linux starts no program with a longer argument (MAX_ARG_STRLEN)."""


def contacted_hosts(line: str) -> frozenset[str]:
    """Return the hosts that programs of the line contact, without loopback ones.

    A program that contacts a host which the line does not name gives UNKNOWN_HOST, and so does a
    line that is too long.
    """
    if len(line) > MAX_LINE_CHARS or "/dev/tcp/" in line or "/dev/udp/" in line:
        return frozenset({UNKNOWN_HOST})
    found = (host.lower() for command in _commands(line) for host in _hosts(command))
    return frozenset(host for host in found if not _LOOPBACK.fullmatch(host))


def words_of(line: str) -> frozenset[str]:
    """Return all words of a line; none of a line that is too long."""
    return frozenset(_words(line) if len(line) <= MAX_LINE_CHARS else ())


def _commands(line: str) -> Iterator[Sequence[str]]:
    """Yield the words of each simple command, from the program on."""
    command: list[str] = []
    for word in (*_words(line), ";"):
        if _SEPARATORS.fullmatch(word):
            yield from _program(command)
            command = []
        else:
            command.append(word)


def _program(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the command without assignments, and once more for the program that it launches."""
    start = 0
    while start < len(words) and (
        _ASSIGNMENT.match(words[start]) or words[start] in _BEFORE_COMMAND
    ):
        start += 1
    command = words[start:]
    if not command:
        return
    yield command
    if posixpath.basename(command[0]) in _LAUNCHERS:
        inner = re.findall(r"[^\s'\"();|&`]+", " ".join(command[1:]))
        for index, word in enumerate(inner):
            if posixpath.basename(word) in NETWORK_PROGRAMS | {"git"}:
                yield inner[index:]
                return


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&\n`")
    # Comments are off: shlex would drop everything after a # inside a word.
    lexer.whitespace_split, lexer.commenters, lexer.whitespace = True, "", " \t\r"
    try:
        return list(lexer)
    except ValueError:  # an unclosed quote
        return re.findall(r"[;&|()\n`]+|[^\s;&|()`'\"]+", line)


def _hosts(command: Sequence[str]) -> Iterator[str]:
    program, rest = posixpath.basename(command[0]), command[1:]
    if {"--version", "-V", "--help"} & set(rest[:1]):
        return
    text = " ".join(rest)
    git = program == "git" and any(word in _GIT_COMMANDS for word in rest[:4])
    named = [match[1] for match in _URL.finditer(text)]
    if program in NETWORK_PROGRAMS or git:
        plain = [match[1] for word in rest if (match := _HOST.match(word))]
        yield from named or plain or [UNKNOWN_HOST]
    elif program in _INTERPRETERS and _CALLS_OUT.search(text):
        yield from named or [UNKNOWN_HOST]
