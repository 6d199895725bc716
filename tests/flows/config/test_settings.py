from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.errors import SettingsInvalid
from flows.config.environment import config_file, environment
from flows.config.memory import load_memory_settings
from flows.config.policy import load_policy_settings
from flows.config.settings import DEFAULT_MODEL, load_settings
from flows.recall.library import configured_library
from memory.types import PlaybookContent, PlaybookQuery


def test_without_anything_set_the_defaults_hold(own_home: Path) -> None:
    settings = load_settings()
    assert settings.home == own_home
    assert settings.model == DEFAULT_MODEL
    assert settings.budget_usd is None


def test_the_file_changes_a_setting(own_home: Path) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_text("[sandbox.limits]\nmemory_mb = 512\n")
    assert load_settings().sandbox.limits.memory_mb == 512


def test_a_variable_is_stronger_than_the_file(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_text('model = "from-file"\n')
    monkeypatch.setenv("HARNESS_MODEL", "from-variable")
    assert load_settings().model == "from-variable"


def test_the_file_can_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.toml").write_text('agent = "pi"\n')
    monkeypatch.setenv("HARNESS_CONFIG", str(tmp_path / "other.toml"))
    assert load_settings().agent == "pi"


def test_a_file_in_the_current_directory_is_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "harness.toml").write_text('model = "from-the-repository"\n')
    monkeypatch.chdir(tmp_path)
    assert load_settings().model == DEFAULT_MODEL


@pytest.mark.parametrize("variable", ["HARNESS_HOME", "HARNESS_CONFIG"])
def test_an_empty_variable_is_no_place_and_never_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "harness.toml").write_text('model = "from-the-repository"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.delenv("HARNESS_HOME")
    monkeypatch.setenv(variable, "")
    settings = load_settings()
    assert (settings.model, settings.home) == (DEFAULT_MODEL, tmp_path / "me/.harness")
    assert config_file() == settings.home / "harness.toml"


def test_a_home_named_from_here_is_the_same_for_what_is_started_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_HOME", "kept")
    monkeypatch.setenv("HARNESS_CONFIG", "ours.toml")
    assert environment()["HARNESS_HOME"] == str(load_settings().home) == str(tmp_path / "kept")
    assert environment()["HARNESS_CONFIG"] == str(tmp_path / "ours.toml")


@pytest.mark.parametrize("variable", ["HARNESS_HOME", "HARNESS_CONFIG"])
def test_the_home_of_a_user_that_nobody_knows_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "~nosuchuser/x")
    with pytest.raises(SettingsInvalid, match=r"'~nosuchuser/x.* leads nowhere"):
        load_settings()


def test_a_wrong_value_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_SANDBOX__LIMITS__PIDS", "many")
    with pytest.raises(SettingsInvalid, match=r"sandbox\.limits\.pids.*many"):
        load_settings()


def test_an_unknown_name_in_the_file_is_refused(own_home: Path) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_text('modle = "x"\n')
    with pytest.raises(SettingsInvalid, match="modle"):
        load_settings()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("metrics_port = 9465", r"'metrics_port' was removed: .*`/metrics` of the pa"),
        ("[sandbox]\npool_size = 2", r"'sandbox.pool_size' was removed: .*Delete the line"),
    ],
)
def test_a_removed_setting_says_what_to_do_instead(own_home: Path, line: str, told: str) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_text(line)
    with pytest.raises(SettingsInvalid, match=told):
        load_settings()


def test_a_file_that_is_not_toml_is_named(own_home: Path) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_text("model = \n")
    with pytest.raises(SettingsInvalid, match=r"harness\.toml is not TOML"):
        load_settings()


@pytest.mark.parametrize("load", [load_settings, load_memory_settings])
def test_a_file_in_another_encoding_is_named(own_home: Path, load: Callable[[], object]) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_bytes('model = "é"\n'.encode("latin-1"))
    with pytest.raises(SettingsInvalid, match=r"harness\.toml is not TOML"):
        load()


@pytest.mark.parametrize(
    ("variable", "value", "load"),
    [
        ("HARNESS_ALLOWED_BLUEPRINTS", "/srv/x.py:*", load_settings),
        ("HARNESS_MEMORY_EMBEDDING", "google", load_memory_settings),
    ],
)
def test_a_list_or_a_table_that_is_not_json_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, load: Callable[[], object]
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsInvalid, match="write it as JSON") as refused:
        load()
    assert variable.rpartition("_")[2].lower() in str(refused.value)


def test_no_relative_path_leads_into_the_current_directory(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_home.mkdir()
    lines = '[memory]\ndata = "books.db"\n[policy]\noperations = ["ops.py"]\n'
    (own_home / "harness.toml").write_text(f'{lines}[sandbox]\nca_bundle = "ca.pem"\n')
    monkeypatch.chdir(tmp_path)
    assert load_settings().sandbox.ca_bundle == own_home / "ca.pem"
    assert load_policy_settings().operations == (own_home / "ops.py",)
    assert load_memory_settings().database(own_home) == own_home / "books.db"


def test_what_stands_under_a_mistyped_name_is_not_repeated(own_home: Path) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_text('[webhooks]\nsecrt = "correct-horse"\n')
    with pytest.raises(SettingsInvalid, match="secrt") as refused:
        load_settings()
    assert "horse" not in str(refused.value)


@pytest.mark.parametrize(
    ("lines", "place", "load"),
    [
        ('[policy]\nmail = "smtp://u:horse@h"', "policy.mail", load_policy_settings),
        ('[policy.mail]\nport = "smtp://u:horse@h"', "policy.mail.port", load_policy_settings),
        ('[memory]\ndata = ["postgresql://u:horse@h/db"]', "memory.data", load_memory_settings),
        ('[memory]\nembedding = "sk-horse"', "memory.embedding", load_memory_settings),
        ('[sandbox]\nenv = ["A=horse"]', "sandbox.env", load_settings),
        (
            '[[webhooks.rules]]\non = "check failed"\nparameters = {x = "horse"}',
            "webhooks.rules.0.deployment",
            load_settings,
        ),
        (
            '[webhooks.repositories]\n"a/b" = ["https://x:horse@github.com/a/b"]',
            "webhooks.repositories.a/b",
            load_settings,
        ),
    ],
)
def test_what_may_hold_a_secret_is_not_repeated(
    own_home: Path, lines: str, place: str, load: Callable[[], object]
) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_text(lines)
    with pytest.raises(SettingsInvalid, match=f"'{place}'") as refused:
        load()
    assert "horse" not in str(refused.value)


def test_a_file_without_a_table_for_memory_leaves_its_defaults(own_home: Path) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_text('model = "some/model"\n')
    assert load_memory_settings().enabled


def test_the_table_for_memory_is_read(own_home: Path) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_text("[memory]\nenabled = false\n")
    assert not load_memory_settings().enabled
    assert load_settings().model == DEFAULT_MODEL


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("HARNESS_MEMORY_EMBEDING__PROVIDER", "HARNESS_MEMORY_EMBEDDING"),
        ("HARNESS_MEMORY__TOOLS", "HARNESS_MEMORY_TOOLS"),
    ],
)
def test_a_mistyped_variable_of_a_table_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, meant: str
) -> None:
    monkeypatch.setenv(variable, "none")
    with pytest.raises(SettingsInvalid, match=f"{variable}.*Did you mean '{meant}'"):
        load_memory_settings()


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://[::1"])
def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("HARNESS_MEMORY_CHROMA_URL", url)
    with pytest.raises(SettingsInvalid, match="chroma_url"):
        load_memory_settings()


def test_a_key_whose_variable_is_not_set_is_named_and_words_are_searched_meanwhile(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own_home.mkdir()
    key = 'provider = "openai"\napi_key = "${MY_KEY}"\n'
    (own_home / "harness.toml").write_text(f"[memory.embedding]\n{key}")
    monkeypatch.delenv("MY_KEY", raising=False)
    with configured_library() as opened:
        opened.create(PlaybookContent(title="Back up"))
        assert [hit.playbook.slug for hit in opened.search(PlaybookQuery(text="back up"))] == [
            "back-up"
        ]
    assert "names MY_KEY, which is not set" in caplog.text
