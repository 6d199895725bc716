"""Why installs fail although the code is right: the outputs are those of the tools themselves."""

import pytest

from nodes.projects.obstacles import install_obstacle, version_obstacle

PROXY = (
    "WARNING: Retrying after connection broken by 'ProxyError('Cannot connect to proxy.', "
    "OSError('Tunnel connection failed: 403 No way to pypi.example: the name does not resolve: "
    "[Errno -2] Name or service not known'))': /simple/idna/\n"
    "ERROR: No matching distribution found for idna\n"
)
BUNDLER = (
    "Git error: command `git clone --bare --no-hardlinks --quiet --\nhttps://git.test/x/nope\n"
    "/tmp/g/cache/bundler/git/nope-b1849ba1035d0e8ca16f93e70f160c00598b0228` in\n"
    "directory /workspace/c2 has failed.\n"
)
NODE = (
    "npm ERR! code EBADENGINE\nnpm ERR! notsup Not compatible with your version of node/npm: a@1\n"
    'npm ERR! notsup Required: {"node":">=24"}\n'
    'npm ERR! notsup Actual:   {"npm":"9.2.0","node":"v18.20.4"}\n'
)


@pytest.mark.parametrize(
    ("output", "lacks", "message"),
    [
        (PROXY, "pypi.example", "could not reach pypi.example (the name does not resolve"),
        (
            "npm ERR! request failed, reason: getaddrinfo EAI_AGAIN r.example",
            "network",
            "egress",
        ),
        (
            "ERROR: Package 'newer' requires a different Python: 3.11.2 not in '>=3.13'",
            "python",
            "needs Python >=3.13, the sandbox has 3.11.2",
        ),
        (NODE, "node", "needs Node >=24, the sandbox has v18.20.4"),
        (
            "Your Ruby version is 3.1.2, but your Gemfile specified ~> 3.3",
            "ruby",
            "needs Ruby ~> 3.3, the sandbox has 3.1.2",
        ),
        (
            "    [javac] error: Source option 6 is no longer supported. Use 7 or later.",
            "java",
            "compiles for Java 6, and the JDK of the sandbox for 7 and later",
        ),
        ("ERROR: No matching distribution found for acme==2.1", "acme==2.1", "machine's own pip"),
        (
            "go: acme.test/x@v1.0.0: reading http://m/acme.test/x/@v/v1.0.0.mod: 404 Not Found",
            "acme.test/x@v1.0.0",
            "machine's own go",
        ),
        (
            "fatal: unable to access 'https://git.test/x/': CONNECT tunnel failed, response 403",
            "https://git.test/x/",
            "needs the git repository https://git.test/x/",
        ),
        (BUNDLER, "https://git.test/x/nope", "name its host in [sandbox] egress"),
        (
            "npm ERR! 404  '@acme/billing@1.0.0' is not in this registry.",
            "@acme/billing@1.0.0",
            "machine's own npm",
        ),
        (
            "npm ERR! `npm ci` can only install packages when your package.json and "
            "package-lock.json or npm-shrinkwrap.json are in sync.",
            "lock file",
            "renew it with `npm install`",
        ),
        (
            "npm ERR! The `npm ci` command can only install with an existing package-lock.json",
            "lock file",
            "renew it with `npm install`",
        ),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            "lock file",
            "find out why",
        ),
    ],
)
def test_the_reason_of_a_failed_install_is_named(output: str, lacks: str, message: str) -> None:
    found = install_obstacle(output)
    assert found is not None
    assert found.lacks == lacks
    assert message in found.message


def test_a_failed_build_has_no_such_reason() -> None:
    assert install_obstacle("error: subprocess-exited-with-error\nSyntaxError: invalid") is None


def test_a_message_is_one_line_without_terminal_escapes() -> None:
    found = install_obstacle("No matching distribution found for a\x1b[31mb\nc")
    assert found is not None
    assert found.lacks == "ab"


def test_tests_that_name_a_package_are_not_taken_for_another_version() -> None:
    assert version_obstacle("No matching distribution found for acme") is None
