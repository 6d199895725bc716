"""`harness memory init` and the settings that it writes: where they stand, and what they are."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.memory import app
from contracts.errors import (
    HomeUnavailable,
    OptionInvalid,
    SettingsInvalid,
)
from flows.config.memory import MemorySettings, expand_variables, load_memory_settings
from memory.types import GroupThresholds, PlaybookQuery, Retention
from providers.embed import PRESETS


def test_init_writes_the_table_once(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", raising=False)
    own_home.mkdir()
    (own_home / "harness.toml").write_text('# mine\nmodel = "openai/gpt-5"\n')
    run = CliRunner().invoke(app, ["init", "--provider", "google", "--json"])
    assert run.exit_code == 0
    text = (own_home / "harness.toml").read_text()
    assert text.startswith('# mine\nmodel = "openai/gpt-5"\n')
    assert "${GOOGLE_API_KEY}" in text
    assert load_memory_settings().embedding.provider == "google"
    assert isinstance(CliRunner().invoke(app, ["init"]).exception, OptionInvalid)
    assert CliRunner().invoke(app, ["init", "--force"]).exit_code == 0
    assert load_memory_settings().embedding.provider == "local"


def test_the_provider_litellm_needs_a_model(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ["init", "--provider", "litellm"]
    assert isinstance(CliRunner().invoke(app, argv).exception, OptionInvalid)
    assert not (own_home / "harness.toml").exists()
    assert CliRunner().invoke(app, [*argv, "--model", "mistral/mistral-embed"]).exit_code == 0
    assert load_memory_settings().embedding.model == "mistral/mistral-embed"
    for model in ("", None):
        with monkeypatch.context() as patch:
            if model is not None:
                patch.setenv("HARNESS_MEMORY_EMBEDDING__MODEL", model)
            else:
                (own_home / "harness.toml").unlink()
                patch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "litellm")
            with pytest.raises(SettingsInvalid, match=r"memory\.embedding\.model.*litellm"):
                load_memory_settings()


def test_init_leaves_a_file_that_it_cannot_read_or_write_as_it_was(own_home: Path) -> None:
    own_home.mkdir()
    file = own_home / "harness.toml"
    file.write_text("[memory\n")
    assert isinstance(CliRunner().invoke(app, ["init", "--force"]).exception, SettingsInvalid)
    assert file.read_text() == "[memory\n"
    file.unlink()
    file.with_suffix(".part").mkdir()
    assert isinstance(CliRunner().invoke(app, ["init"]).exception, HomeUnavailable)


def test_variables_stand_over_the_file(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_text('[memory]\ndata = "/file"\nlimit = 0\n')
    assert (load_memory_settings().data, load_memory_settings().limit) == ("/file", 0)
    monkeypatch.setenv("HARNESS_MEMORY_DATA", str(tmp_path / "env.db"))
    assert load_memory_settings().database(own_home) == tmp_path / "env.db"
    monkeypatch.setenv("HARNESS_MEMORY_MAX_DISTANCE", "nonsense")
    with pytest.raises(SettingsInvalid, match=r"memory\.max_distance"):
        load_memory_settings()


def test_variables_in_keys_are_expanded() -> None:
    assert expand_variables("a-${KEY}", {"KEY": "x"}) == "a-x"
    assert expand_variables("${KEY}", {}) is None
    assert expand_variables(None, {}) is None


def test_defaults_are_those_of_playbookd() -> None:
    query, contrast, settings = PlaybookQuery(text="deploy"), GroupThresholds(), MemorySettings()
    assert (query.min_score, query.confidence_weight, query.filter.archived) == (0, 0, False)
    assert (contrast.proven_min, contrast.failed_max) == (0.5, 0.3)
    assert settings.retention == Retention()
    assert (settings.max_age_days, settings.min_confidence) == (90, 0.3)
    assert PRESETS["google"] == ("gemini/gemini-embedding-001", 768)
    assert PRESETS["openai"] == ("text-embedding-3-small", 1536)
    assert PRESETS["ollama"][0] == "ollama/nomic-embed-text-v2-moe"
