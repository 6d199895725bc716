"""Makes the pictures of the documentation from real runs: `.venv/bin/python -m docs.pictures.make`.

It runs `fix-tests` on the demo's repository, with a scripted model and a home of its own, shows the
output as an SVG, and photographs the flow run in the Prefect UI with a headless Chromium. A second
run is pushed to a forge of the tests, where the check of the first push fails.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support.forge_state import TOKEN, Check
from tests.support.git_server import git_server
from tests.support.recorded_forge import recorded_forge

HERE = Path(__file__).parent
_DEMO = HERE.parents[1] / "app" / "demo"
_RUN = ("run", "fix-tests", "--repo", "opening-hours")
_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_WIDTH = 96
_LOG = "E   assert not is_open(parse('9-17'), 24)"
_TEST = "def test_no_shop_is_open_after_midnight():\n    assert not is_open(parse('9-17'), 24)\n"


def main() -> None:
    """Write `terminal.svg`, `prefect.png` and `rounds.png` beside this file."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _make_repository(folder / "opening-hours")
        shutil.copy(_DEMO / "replies.jsonl", folder)
        try:
            said = _harness(*_RUN, folder=folder)
            (HERE / "terminal.svg").write_text(_terminal(f"harness {' '.join(_RUN)}", said))
            _photograph(_page(said, folder), HERE / "prefect.png", wait_for="verify")
            page = _page(_pushed(folder), folder)
            _photograph(page, HERE / "rounds.png", wait_for="round 1: verify after the push")
        finally:
            _harness("down", folder=folder)


def _pushed(folder: Path) -> str:
    """Run, push, and run a round for the check that failed; return the output."""
    repository, bare = folder / "opening-hours", folder / "git" / "team" / "app.git"
    _git("clone", "--quiet", "--bare", str(repository), str(bare), at=folder)
    _git("config", "http.receivepack", "true", at=bare)
    line = f"cat >> tests/test_opening_hours.py <<'END'\n\n\n{_TEST}END"
    call = {"function": {"name": "bash", "arguments": json.dumps({"command": line})}}
    round_1 = ({"tool_calls": [call]}, {"content": "A test of midnight was missing; I added it."})
    with (folder / "replies.jsonl").open("a") as replies:
        replies.writelines(f"{json.dumps(reply)}\n" for reply in round_1)
    with (
        git_server(folder / "git", user="ann", password="s3cret") as host,  # noqa: S106 - its own
        recorded_forge("gitea") as forge,
    ):
        _git("remote", "add", "origin", f"http://ann:s3cret@{host}/team/app.git", at=repository)
        forge.state.results += [[Check("test", "failure", _LOG)], [Check("test", "success")]]
        known = {host: {"kind": "gitea", "api": forge.api, "token_variable": "TEAM_TOKEN"}}
        env = {"HARNESS_FORGES": json.dumps(known), "TEAM_TOKEN": TOKEN}
        return _harness(*_RUN, "--push", folder=folder, env=env)


def _make_repository(at: Path) -> None:
    shutil.copytree(_DEMO / "repository", at)
    for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "Start")):
        _git(*words, at=at)


def _git(*words: str, at: Path) -> None:
    author = ("-c", "user.name=Demo", "-c", "user.email=demo@localhost")
    subprocess.run(("git", *author, *words), cwd=at, check=True)


def _harness(*words: str, folder: Path, env: Mapping[str, str] = MappingProxyType({})) -> str:
    argv = (sys.executable, "-m", "harness", *words)
    home = {"HARNESS_HOME": str(folder / "home"), "HARNESS_MODEL": "scripted/replies.jsonl"}
    done = subprocess.run(
        argv,
        cwd=folder,
        env={**os.environ, **home, **env},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def _page(said: str, folder: Path) -> str:
    """Return the address of the flow run of a run that printed this."""
    found = re.search(r"^fix-tests (\w+):", said, re.MULTILINE)
    assert found is not None, said  # noqa: S101 - a script of ours
    shown = json.loads(_harness("runs", "show", found[1], "--json", folder=folder))
    return str(shown["flow_run_url"])


def _terminal(command: str, said: str) -> str:
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device
        console = Console(record=True, width=_WIDTH, file=nowhere, force_terminal=True)
        console.print(Text(f"$ {command}", style="bold"))
        console.print(Text(said.rstrip()), highlight=False)
    return console.export_svg(title="harness", theme=MONOKAI)


def _photograph(url: str, to: Path, *, wait_for: str) -> None:
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(180_000)
        page.goto(url)
        page.get_by_text("Task Runs", exact=True).click()
        page.get_by_role("link", name=wait_for, exact=True).wait_for()
        page.wait_for_timeout(5_000)  # the picture of the run is drawn after the list
        page.screenshot(path=to)
        browser.close()


if __name__ == "__main__":
    main()
