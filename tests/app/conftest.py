"""The command line, as a person or a script starts it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

import pytest
import typer.testing
from playwright.sync_api import Browser, Page, expect, sync_playwright
from typer.testing import CliRunner, Result

from app.cli.main import COMMANDS, command_line, main
from contracts.errors import HarnessError
from tests.support.app import BY_WORDS, Cli, Harness, harness_argv
from tests.support.forks import Fork
from tests.support.mailbox import Mailbox, mail_server
from tests.support.repositories import make_repository
from tests.support.waiting import LONG_S

CHROMIUM = next(
    (path for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
     if (path := shutil.which(name))),
    "chromium",
)  # fmt: skip
"""The first is the same without a window, which nobody would see: it takes half the time."""


@cache
def _command_line() -> typer.Typer:
    return command_line(*COMMANDS)


@pytest.fixture(scope="session", autouse=True)
def convert_commands_once() -> None:
    """Cache the conversion of the command line, which typer repeats for each invocation."""
    converted = cache(typer.main.get_command)
    vars(typer.main).update(get_command=converted)
    vars(typer.testing).update(_get_command=converted)


@pytest.fixture
def cli(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command without an embedding model; errors come out as they are."""
    for name, value in BY_WORDS.items():
        monkeypatch.setenv(name, value)

    def run(*argv: str, **options: str) -> Result:
        result = CliRunner().invoke(_command_line(), list(argv), **options)  # type: ignore[arg-type]  # input=
        if isinstance(result.exception, HarnessError):
            raise result.exception
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return result

    return run


@pytest.fixture
def harness(own_store: Path, tmp_path: Path, fork: Fork) -> Harness:
    """Run `harness` with these arguments; `env` adds variables. Memory goes by words."""

    def run(*args: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        with TemporaryFile() as out, TemporaryFile() as err:
            given = {**BY_WORDS, **os.environ, **(env or {})}
            process = fork("app", *args, cwd=tmp_path, env=given, stdout=out, stderr=err)
            code = process.wait()
            said, told = (os.pread(one.fileno(), 1 << 26, 0).decode() for one in (out, err))
        return subprocess.CompletedProcess(args, code, said, told)

    return run


@pytest.fixture
def started(own_home: Path, tmp_path: Path) -> Harness:
    """The same from nothing, as a shell starts it: for one test of each kind of command."""

    def run(*args: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            harness_argv(*args),
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def asked(
    own_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Harness:
    """The same without a process of its own: for what only looks."""

    def run(*args: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        capfd.readouterr()
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
            patch.chdir(tmp_path)
            patch.setattr(sys, "argv", ["harness", *args])
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            main()
        return subprocess.CompletedProcess(args, int(ended.value.code or 0), *capfd.readouterr())

    return run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium for the tests of a module."""
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-3d-apis",  # else it paints Prefect's picture of each open run, in software
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        expect.set_options(timeout=1000 * LONG_S)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab that knows nothing of other tests."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(1000 * LONG_S)
    yield page
    page.close()


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch, prefect_api: str) -> Iterator[Mailbox]:
    """Where mails of plans go, which run on the test's own Prefect server."""
    with mail_server() as box:
        monkeypatch.setenv("HARNESS_POLICY_MAIL__PORT", str(box.port))
        monkeypatch.setenv("HARNESS_POLICY_PRINCIPALS", '{"team": ["team@example.org"]}')
        monkeypatch.setenv("PREFECT_API_URL", prefect_api)
        yield box
