"""The names that symbolic links give to a file."""

import pytest

from contracts.model_access import GuardBounds
from policy.errors import TooManyLinks
from policy.guard.changed_files import ChangedFile, forbidden_changes
from policy.guard.links import SymbolicLinks


@pytest.mark.parametrize(
    ("links", "path", "name"),
    [
        ({".husky": "tools/husky"}, "tools/husky/pre-commit", ".husky/pre-commit"),
        ({".husky": "./tools//husky/"}, "tools/husky/x", ".husky/x"),
        ({".husky": "Tools/Husky"}, "tools/husky/x", ".husky/x"),
        ({"AGENTS.md": "docs/agents.md"}, "docs/agents.md", "AGENTS.md"),
        ({"a/.npmrc": "../config/npmrc"}, "config/npmrc", "a/.npmrc"),
        ({".husky": "a", "a": "b", "b": "c/d"}, "c/d/x", ".husky/x"),
        ({".husky": "a/husky", "a": "b"}, "b/husky/x", ".husky/x"),
        ({".husky": "a/../tools", "a": "b/c"}, "b/tools/x", ".husky/x"),
        ({".husky": "tools", "tools/hook": "../impl/hook"}, "impl/hook", ".husky/hook"),
        ({".github/all": ".."}, "src/x.py", ".github/all/src/x.py"),
        ({".husky": "tools/husky"}, "tools", ".husky"),
        ({".husky": "a/husky", "a": "b"}, "a", ".husky"),
        ({".husky": "module/husky"}, "module", ".husky"),
    ],
)
def test_a_link_adds_a_name_for_its_target(links: dict[str, str], path: str, name: str) -> None:
    assert name in list(SymbolicLinks(links).names_of(path))


@pytest.mark.parametrize(
    "links",
    [
        {"a": "a"},
        {"a": "b", "b": "a"},
        {"a": "b/c", "b": "a/d"},
        {"a/loop": "..", "b/loop": ".."},
        {"out": "../../etc"},
        {"out": "/etc"},
        {"out": "a", "a": "/etc"},
        {"empty": ""},
        {"nul": "a\0b"},
        {f"l{n}": f"l{n + 1}" for n in range(1_000)},
    ],
)
def test_loops_and_links_out_of_the_tree_add_few_names(links: dict[str, str]) -> None:
    names = list(SymbolicLinks(links).names_of("etc"))
    assert names[0] == "etc"
    assert len(names) < 10


def test_each_link_to_a_parent_folder_adds_one_name() -> None:
    loops = {f"examples/{n}/node_modules/lib": "../../.." for n in range(50)}
    names = list(SymbolicLinks(loops).names_of("src/x.py"))
    assert sorted(names[1:]) == sorted(f"{loop}/src/x.py" for loop in loops)


def test_a_file_without_links_has_its_path_as_its_only_name() -> None:
    assert list(SymbolicLinks({"a": "b"}).names_of("c/d")) == ["c/d"]


def test_a_hundred_thousand_links_are_followed() -> None:
    links = SymbolicLinks({f"p{n}/shared": "../shared" for n in range(100_000)})
    assert sum(1 for _ in links.names_of("shared/x")) == 100_001


def test_links_that_cost_too_much_to_follow_are_refused_and_every_change_is_protected() -> None:
    tangled = {f"d{a}/l{b}": f"../d{b}" for a in range(50) for b in range(50) if a != b}
    tangled["links"] = "d0/x"
    links = SymbolicLinks(tangled, budget=1_000_000)
    with pytest.raises(TooManyLinks):
        list(links.names_of("d0/x"))
    changes = [ChangedFile("src/x.py", "0", "1"), ChangedFile("y", "0", "1")]
    found = forbidden_changes(changes, GuardBounds(protected=(".npmrc",)), [links])
    assert [(one.change.path, one.protected_name) for one in found] == [
        ("src/x.py", None),
        ("y", None),
    ]
    assert (
        forbidden_changes(changes, GuardBounds(protected=(".npmrc",), changes=("**",)), [links])
        == ()
    )
    assert (
        forbidden_changes(
            changes, GuardBounds(protected=(".npmrc",), changes=("src/**", "y")), [links]
        )
        == ()
    )


def test_more_links_than_the_budget_allows_are_refused() -> None:
    links = SymbolicLinks({f"l{n}": "a/b/c/d" for n in range(1_000)}, budget=10_000)
    with pytest.raises(TooManyLinks):
        list(links.names_of("x"))
