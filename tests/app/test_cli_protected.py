"""`harness policy protected`: what is protected here, and why."""

import json

import pytest

from tests.support.app import Cli


def test_the_list_says_what_executes_or_obeys_each_file(cli: Cli) -> None:
    shown = cli("policy", "protected").stdout
    assert "ci:\n  /.github/**" in shown
    assert ".npmrc                           npm, pnpm and yarn read their registry" in shown


def test_settings_extend_and_cut_the_list(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_POLICY_PROTECTED_ALSO", '["deploy/**"]')
    monkeypatch.setenv("HARNESS_POLICY_PROTECTED_EXCEPT", '["examples/**"]')
    found = json.loads(cli("policy", "protected", "--json").stdout)
    assert found["groups"]["settings"] == {"deploy/**": "the settings protect it"}
    assert found["except"] == ["examples/**"]
    asked = ("deploy/prod.sh", "examples/uv.lock", "uv.lock")
    assert json.loads(cli("policy", "protected", *asked, "--json").stdout) == {
        "deploy/prod.sh": "the settings protect it",
        "examples/uv.lock": None,
        "uv.lock": "uv installs exactly this",
    }


def test_a_list_of_the_settings_replaces_the_default(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_POLICY_PROTECTED", '["uv.lock", "deploy/**"]')
    groups = json.loads(cli("policy", "protected", "--json").stdout)["groups"]
    assert groups == {
        "locks": {"uv.lock": "uv installs exactly this"},
        "settings": {"deploy/**": "the settings protect it"},
    }
