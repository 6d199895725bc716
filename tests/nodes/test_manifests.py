"""Which files decide what an install lays down."""

import pytest

from nodes.projects.manifests import install_inputs, package_indexes


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["README.md", "shop.py", "docs/a.c"], []),
        (["pyproject.toml", "shop.py"], ["pyproject.toml"]),
        (["requirements/dev.in", "docs/conf.py"], ["requirements/dev.in"]),
        (["a/requirements-test.txt"], ["a/requirements-test.txt"]),
        (["setup.py", "src/fast.c", "src/slow.py"], ["setup.py", "src/fast.c"]),
        (["package.json", "node_modules/x/package.json", "lib/a.ts"], ["package.json"]),
    ],
)
def test_manifests_locks_and_what_is_compiled_decide_an_install(
    paths: list[str], expected: list[str]
) -> None:
    assert install_inputs(paths) == expected


def test_the_indexes_are_those_of_the_ecosystems_with_manifests() -> None:
    assert package_indexes(["package.json", "setup.cfg"]) == ("python", "node")
    assert package_indexes(["Makefile"]) == ()
