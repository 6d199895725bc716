"""Why an install or a test command failed although the code is right, as the tools say it.

An obstacle is a version, a package, a host or a lock file: nothing that an agent could repair.
"""

import re
from typing import NamedTuple

from nodes.text import one_line, strip_control_characters


class Obstacle(NamedTuple):
    """The name of what the sandbox lacks, and a line that tells the user what to do."""

    lacks: str
    message: str


class _Sign(NamedTuple):
    """`says` and `lacks` are templates with the groups of `line`."""

    line: str
    says: str
    lacks: str = "lock file"


_WORD = r"[^\s'\"`,]{1,120}"
_LOCK = "the lock file is broken or does not fit the manifest: renew it with {0} and commit it"
IMAGE = "an image of your own can have it ([sandbox] image, see docs/how-to/image.md)"
"""What to do about a tool of another version."""
_INDEX = (
    "if it is in a private index, configure this machine's own {0} with that index; one that "
    "needs a password is never used in a sandbox: put the package into an image "
    "([sandbox] image, see docs/how-to/image.md)"
)


def _version(line: str, tool: str) -> _Sign:
    says = f"the project needs {tool} {{wants}}, the sandbox has {{has}}: {IMAGE}"
    return _Sign(line, says, tool.lower())


def _package(line: str, client: str) -> _Sign:
    says = f"no package index that the sandbox reaches has {{package}}: {_INDEX.format(client)}"
    return _Sign(line, says, "{package}")


def _lock(line: str, command: str) -> _Sign:
    return _Sign(line, _LOCK.format(command))


def _git_server(line: str) -> _Sign:
    says = (
        "it needs the git repository {url}, and an install reaches package indexes only: name its "
        "host in [sandbox] egress, see docs/how-to/image.md"
    )
    return _Sign(line, says, "{url}")


_NETWORK = (
    _git_server(rf"unable to access '(?P<url>{_WORD})': CONNECT tunnel failed, response 403"),
    _git_server(rf"Git error: command `git clone (?:.|\n){{1,120}}?--\s+(?P<url>https?://{_WORD})"),
    _Sign(
        rf"403 No way to (?P<host>{_WORD}?): (?P<why>[^'\")\n]{{1,120}})",
        "the sandbox could not reach {host} ({why}): look at this machine's network and at the "
        "index that its package client is configured to use",
        "{host}",
    ),
    _Sign(
        rf"502 (?P<host>{_WORD}) cannot be reached: (?P<why>[^'\")\n]{{1,120}})",
        "the sandbox could not reach {host} ({why}): look at this machine's network and proxy",
        "{host}",
    ),
    _Sign(
        r"(?P<why>Temporary failure in name resolution|getaddrinfo (?:EAI_AGAIN|ENOTFOUND)"
        r"|Could not resolve host|Network is unreachable|dial tcp: lookup |UnknownHostException)",
        "it needs a host that the sandbox does not reach ({why}): name it in [sandbox] egress, "
        "see docs/how-to/image.md",
        "network",
    ),
)
_VERSIONS = (
    _Sign(
        r"(?:Source|Target) option (?P<wants>[\d.]+) is no longer supported\. Use (?P<has>[\d.]+) "
        r"or later",
        "the build compiles for Java {wants}, and the JDK of the sandbox for {has} and later: "
        f"raise the version, or use an older JDK: {IMAGE}",
        "java",
    ),
    _version(
        r"requires a different Python: (?P<has>[\d.]+\S{0,9}) not in '(?P<wants>[^'\n]{1,60})'",
        "Python",
    ),
    _version(r"go\.mod requires go >= (?P<wants>[\w.]+) \(running go (?P<has>[\w.]+)", "Go"),
    _version(
        r"requires rustc (?P<wants>[\d.]+)[^\n]{0,40} while the currently active rustc version is "
        r"(?P<has>[\d.]+)",
        "Rust",
    ),
    _Sign(
        r"requires the Cargo feature called `edition(?P<wants>20\d\d)`(?:.|\n){1,80}"
        r"in this version of Cargo \((?P<has>[\d.]+)",
        f"the project uses Rust's edition {{wants}}, the sandbox has cargo {{has}}: {IMAGE}",
        "rust",
    ),
    _version(
        r"Required: +\{\"node\":\"(?P<wants>[^\"\n]{1,60})\"[^\n]*\n[^\n]*Actual: +\{[^\n]*"
        r"\"node\":\"(?P<has>[^\"\n]{1,40})\"",
        "Node",
    ),
    _version(
        r"Your Ruby version is (?P<has>[\d.]+), but your Gemfile specified (?P<wants>[^\n]{1,60})",
        "Ruby",
    ),
    _version(
        r"requires php (?P<wants>[^\n]{1,60}?) (?:->|but) your php version \((?P<has>[\d.]+)", "PHP"
    ),
)
_CHECKSUM = (
    "a downloaded package is not the one that the lock file was made with: find out why before you "
    "change the checksum there"
)
_LOCKS = (
    _Sign(r"DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", _CHECKSUM),
    _Sign(r"npm (?:ERR!|error) code EINTEGRITY", _CHECKSUM),
    _Sign(r"^verifying \S+: checksum mismatch", _CHECKSUM),
    _lock(r"`npm ci` (?:can only install packages when|command can only install)", "`npm install`"),
    _lock(r"ERR_PNPM_(?:OUTDATED|BROKEN)_LOCKFILE", "`pnpm install`"),
    _lock(r"Your lockfile needs to be updated|lockfile would have been modified", "`yarn install`"),
    _lock(r"go: updates to go\.mod needed|missing go\.sum entry", "`go mod tidy`"),
    _lock(r"failed to parse lock file at|the lock file \S+ needs to be updated", "`cargo update`"),
    _lock(r"lock file is not up to date with the latest changes in composer", "`composer update`"),
)
_PACKAGES = (
    _package(rf"No matching distribution found for (?P<package>{_WORD})", "pip"),
    _package(rf"404 +'(?P<package>{_WORD})' is not in this registry", "npm"),
    _package(rf"404 +'(?P<package>{_WORD})' is not in the npm registry", "npm"),
    _package(rf"^go: (?P<package>{_WORD}): reading {_WORD}: 404 Not Found", "go"),
    _package(rf"no matching package named `(?P<package>{_WORD})` found", "cargo"),
    _package(rf"Could not find gem '(?P<package>{_WORD})", "Bundler"),
    _package(
        rf"Root composer\.json requires (?P<package>{_WORD}), it could not be found", "Composer"
    ),
    _package(rf"Could not find artifact (?P<package>{_WORD}) in", "Maven"),
)
# Without a network, clients say of every package that no index has it.
_INSTALL = (*_VERSIONS, *_NETWORK, *_LOCKS, *_PACKAGES)


def install_obstacle(text: str) -> Obstacle | None:
    """Return why an install failed, from its output, if no change of the code can mend it."""
    return _find(text, _INSTALL)


def version_obstacle(text: str) -> Obstacle | None:
    """Return the tool whose version made a test command fail before any test, from its output."""
    return _find(text, _VERSIONS)


def _find(text: str, signs: tuple[_Sign, ...]) -> Obstacle | None:
    plain = strip_control_characters(text)
    for sign in signs:
        if found := re.search(sign.line, plain, re.MULTILINE):
            groups = {name: one_line(value) for name, value in found.groupdict().items()}
            return Obstacle(sign.lacks.format(**groups), sign.says.format(**groups))
    return None
