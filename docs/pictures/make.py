"""Makes the pictures of the README from a real run: `.venv/bin/python docs/pictures/make.py`.

It runs `fix-tests` on the demo's repository, with a scripted model and a home of its own, shows the
output as an SVG, and photographs the flow run in the Prefect UI with a headless Chromium.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
_DEMO = HERE.parents[1] / "app" / "demo"
_RUN = ("run", "fix-tests", "--repo", "opening-hours")
_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_WIDTH = 96


def main() -> None:
    """Write `terminal.svg` and `prefect.png` beside this file."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _make_repository(folder / "opening-hours")
        shutil.copy(_DEMO / "replies.jsonl", folder)
        said = _harness(*_RUN, "--model", "scripted/replies.jsonl", folder=folder)
        shown = json.loads(_harness("runs", "show", _run_id(said), "--json", folder=folder))
        try:
            (HERE / "terminal.svg").write_text(_terminal(f"harness {' '.join(_RUN)}", said))
            _photograph(shown["flow_run_url"], HERE / "prefect.png")
        finally:
            _harness("down", folder=folder)


def _make_repository(at: Path) -> None:
    shutil.copytree(_DEMO / "repository", at)
    author = ("-c", "user.name=Demo", "-c", "user.email=demo@localhost")
    for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "Start")):
        subprocess.run(("git", *author, *words), cwd=at, check=True)


def _harness(*words: str, folder: Path) -> str:
    argv = (sys.executable, "-m", "harness", *words)
    env = {**os.environ, "HARNESS_HOME": str(folder / "home")}
    done = subprocess.run(argv, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _run_id(said: str) -> str:
    found = re.search(r"^fix-tests (\w+):", said, re.MULTILINE)
    assert found is not None, said  # noqa: S101 - a script of ours
    return found[1]


def _terminal(command: str, said: str) -> str:
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device
        console = Console(record=True, width=_WIDTH, file=nowhere, force_terminal=True)
        console.print(Text(f"$ {command}", style="bold"))
        console.print(Text(said.rstrip()), highlight=False)
    return console.export_svg(title="harness", theme=MONOKAI)


def _photograph(url: str, to: Path) -> None:
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(180_000)
        page.goto(url)
        page.get_by_text("Task Runs", exact=True).click()
        page.get_by_role("link", name="verify", exact=True).wait_for()
        page.wait_for_timeout(5_000)  # the picture of the run is drawn after the list
        page.screenshot(path=to)
        browser.close()


if __name__ == "__main__":
    main()
