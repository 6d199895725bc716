"""Whatever is asked wrongly: one clear line, the right exit code, nothing begun."""

import json
from pathlib import Path

import pytest

from app.terminal.identity import user_name
from tests.support.app import Harness
from tests.support.repositories import fingerprint, git

BAD = 2
NOT_AVAILABLE = 3


@pytest.mark.parametrize(
    ("args", "exit_code", "said"),
    [
        (("run", "fix-test"), BAD, "Did you mean 'fix-tests'"),
        (
            ("run", "nope.py:thing", "--repo", "repository"),
            BAD,
            "Known: ci-doctor, fix-tests, implement",
        ),
        (("run", "fix-tests", "--repo", "nowhere"), BAD, "no such directory"),
        (("run", "fix-tests", "--repo", "empty"), BAD, "no commits yet"),
        (("run", "fix-tests", "--repo", "no-repo"), BAD, "not a git repository"),
        (("run", "fix-tests", "--repo", "repository", "--ref", "v9"), BAD, "no branch, tag"),
        (
            ("run", "fix-tests", "--repo", "repository", "--ref", "--upload-pack=x"),
            BAD,
            "not a ref",
        ),
        (("run", "fix-tests", "--repo", "~nosuchuser/x"), BAD, "no repository at '~nosuchuser/x'"),
        (
            ("run", "fix-tests", "--repo", "a" * 6000),
            BAD,
            "the repo has 6000 characters: at most 2000",
        ),
        (("run", "fix-tests", "--repo", "repository", "--set", "colour=red"), BAD, "install, test"),
        (("run", "fix-tests", "--repo", "repository", "--set", "test"), BAD, "NAME=VALUE"),
        (
            ("run", "fix-tests", "--repo", "repository", "--set", "test=false '"),
            BAD,
            'the command "false \'": No closing quotation',
        ),
        (("run", "fix-tests", "--repo", "repository", "--agent", "hal"), BAD, "no agent 'hal'"),
        (("run", "fix-tests", "--repo", "repository"), NOT_AVAILABLE, "ANTHROPIC_API_KEY"),
        (("run", "fix-tests", "--repo", "repository", "--model", "scripted/x"), BAD, "cannot read"),
        (
            ("run", "fix-tests", "--repo", "repository", "--intent", "x" * 20_001),
            BAD,
            "error: the intent has 20001 characters: at most 20000 are allowed",
        ),
        (
            ("run", "fix-tests", "--repo", "repository", "--budget-usd", "20000"),
            BAD,
            "error: the budget is 20000 US dollars: it must be above 0 and at most 10000",
        ),
        (
            ("run", "fix-tests", "--repo", "repository", "--model", "scripted/~nosuchuser/x"),
            BAD,
            "cannot read scripted model",
        ),
        (("runs", "show", "nope"), BAD, "harness runs list"),
        (("runs", "prune", "--older-than", "soon"), BAD, "--older-than 'soon': write it as"),
        (("runs", "prune", "--older-than=-30d"), BAD, "--older-than '-30d': write it as"),
        (("runs", "list", "--limit", "9" * 23), BAD, "'--limit'"),
        (("events", "log", "--limit", "9" * 23), BAD, "'--limit'"),
        (("notes", "list", "--limit", "9" * 23), BAD, "'--limit'"),
        (("memory", "list", "--limit", "9" * 23), BAD, "'--limit'"),
        (("memory", "rm", "nope"), BAD, "no playbook 'nope'"),
        (("memory", "search", " "), BAD, "the text to search for is empty"),
        (("memory", "import", "/dev/null"), BAD, "there is nothing to import"),
        (("events", "log", "--run", "nope"), BAD, "has no run 'nope'"),
        (
            ("events", "export", "log", "--format", "parquet"),
            BAD,
            "'parquet' is not one of 'jsonl'",
        ),
        (("events", "replay", "--run", "nope"), BAD, "has no run 'nope'"),
        (("ui", "--host", "x\udcff"), BAD, "pages cannot be served at 'x\\udcff'"),
        (("plan", "x\udcff"), BAD, "the prompt or the intent holds '\\udcff'"),
        (("plan", "x", "--repo", ""), BAD, "no repository is named"),
        *(
            (
                ("run", "fix-tests", "--repo", "repository", "--allow-change", glob),
                BAD,
                "--allow-change",
            )
            for glob in (
                "",
                " ",
                "/etc/x",
                "a/../b",
                "..",
                "./a",
                "a/",
                "a//b",
                "x" * 501,
                "\udcff",
            )
        ),
        (
            ("run", "fix-tests", "--repo", "repository", "--allow-change", "**"),
            BAD,
            "error: --allow-change '**' permits changing protected files of every kind",
        ),
        (("plan", "x", "--allow-change", "../x"), BAD, "error: --allow-change '../x': give a path"),
        (("repl", "--allow-change", ""), BAD, "error: --allow-change '': give a path"),
        (("run", "implement", "--repo", "repository"), BAD, "does what the intent says"),
        (("blueprints", "check", "nope"), BAD, "Known: ci-doctor, fix-tests"),
        (("run", "fix-tests", "--budget-usd", "much"), BAD, "--budget-usd"),
        (("rnu",), BAD, "No such command"),
    ],
)
def test_bad_input_gets_one_clear_line(
    asked: Harness, repository: Path, args: tuple[str, ...], exit_code: int, said: str
) -> None:
    (repository.parent / "no-repo").mkdir()
    (repository.parent / "empty").mkdir()
    git(repository.parent / "empty", "init", "--quiet")
    before = fingerprint(repository)
    done = asked(*args)
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert fingerprint(repository) == before


@pytest.mark.parametrize(("repo", "what"), [("caf\udce9", "repo"), ("link", "repository's path")])
def test_a_path_that_is_not_utf8_is_refused(
    asked: Harness, repository: Path, repo: str, what: str
) -> None:
    there = repository.rename(repository.parent / "caf\udce9")
    (there.parent / "link").symlink_to(there)
    done = asked("run", "fix-tests", "--repo", repo)
    said = f"error: the {what} holds '\\udce9': it must be text in UTF-8\n"
    assert (done.returncode, done.stderr) == (BAD, said)


def test_missing_docker_is_reported_before_anything_starts(
    started: Harness, repository: Path, own_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "replies.jsonl").write_text('{"content": "Done."}\n')
    args = ("run", "fix-tests", "--repo", "repository", "--model", "scripted/replies.jsonl")
    done = started(*args, env={"DOCKER_HOST": "unix:///nowhere.sock"})
    assert done.returncode == NOT_AVAILABLE
    assert "no Docker engine answers at unix:///nowhere.sock" in done.stderr
    assert not (own_home / "prefect").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("run", "nope", "--json"), "no blueprint 'nope'"),
        (("run", "--json"), "Missing argument 'blueprint'"),
        (("memory", "rm", "nope", "--json"), "no playbook 'nope'"),
        (("runs", "list", "--limit", "0", "--json"), "Invalid value for '--limit'"),
    ],
)
def test_with_json_an_error_is_a_json_document_too(
    asked: Harness, args: tuple[str, ...], said: str
) -> None:
    done = asked(*args)
    document = json.loads(done.stdout)
    assert document["error"].startswith(said)
    assert (document["exit_code"], done.returncode) == (BAD, BAD)
    assert done.stderr == f"error: {document['error']}\n"


def test_a_broken_settings_file_is_named(started: Harness, own_home: Path) -> None:
    own_home.mkdir()
    (own_home / "harness.toml").write_text("model = 7\n")
    done = started("runs", "list")
    assert done.returncode == BAD
    assert "setting 'model' is 7" in done.stderr


def test_an_unusable_home_is_named(asked: Harness, repository: Path, tmp_path: Path) -> None:
    home = tmp_path / "home-that-is-a-file"
    home.touch()
    nowhere = {"HARNESS_HOME": str(home)}
    for args in (
        ("run", "fix-tests", "--repo", "repository"),
        ("up",),
        ("demo",),
        ("events", "log"),
    ):
        done = asked(*args, env=nowhere)
        assert (done.returncode, done.stdout) == (NOT_AVAILABLE, "")
        assert f"cannot write in {home}: Not a directory" in done.stderr
    rows = {row["what"]: row for row in json.loads(asked("doctor", "--json", env=nowhere).stdout)}
    assert (rows["home"]["ok"], rows["git"]["ok"]) == (False, True)
    assert rows["home"]["found"].startswith(f"cannot write in {home}")


def test_ctrl_c_before_a_run_began_says_so(
    asked: Harness, repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "ops.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = asked("run", "ops.py:slow", "--repo", "repository", "--json")
    assert done.stderr == "error: interrupted\n"
    said = {"error": "interrupted", "exit_code": 130}
    assert (done.returncode, json.loads(done.stdout)) == (130, said)


def test_ctrl_c_in_any_command_is_a_document_too(asked: Harness, tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = asked("blueprints", "show", "ops.py:slow", "--json")
    said = {"error": "interrupted", "exit_code": 130}
    assert (done.returncode, json.loads(done.stdout)) == (130, said)


def test_with_debug_the_traceback_is_shown(started: Harness) -> None:
    assert "Traceback" in started("runs", "show", "nope", "--debug").stderr


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PREFECT_API_URL", "http://[", "Invalid IPv6 URL"),
        ("PREFECT_LOGGING_LEVEL", "x", "'level'"),
    ],
)
def test_an_invalid_prefect_setting_is_named(
    started: Harness, name: str, value: str, said: str
) -> None:
    done = started("doctor", "--json", env={name: value})
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit_code"]) == (BAD, BAD)
    assert document["error"].startswith("Prefect cannot use its setting ")
    assert said in document["error"]


def test_a_configuration_file_that_is_a_folder_is_named(asked: Harness, tmp_path: Path) -> None:
    done = asked("memory", "init", env={"HARNESS_CONFIG": str(tmp_path)})
    assert (done.returncode, f"{tmp_path} cannot be read: Is a directory" in done.stderr) == (
        2,
        True,
    )


def test_a_user_without_a_name_is_called_by_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 54321)
    assert user_name() == "uid 54321"
