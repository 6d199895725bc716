"""Lists of a store of 10,000 notes, asked over HTTP and seen in Chromium."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import httpx
from playwright.sync_api import sync_playwright

from benchmarks.memory.injection import fill
from benchmarks.row import Row
from contracts.agents import AGENTS
from memory.notes.notebook import open_notebook

ROUNDS = 20
LISTS = ("/notes", "/notes?status=Active&type=Constraint", "/examples", "/notes?text=key")

_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def rows() -> Iterator[Row]:
    """Baseline: the same server's style sheet, which asks no database."""
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        with open_notebook(Path(folder, "harness.db"), agents=AGENTS) as book:
            fill(book, spread=True)
        with _served(folder) as url, httpx.Client(base_url=url) as client:
            sheet = _p50(client, "/static/style.css")
            for path in LISTS:
                ours = _p50(client, path)
                yield Row(
                    name=f"{path} at 10,000 notes, p50",
                    ours=ours,
                    baseline=sheet,
                    ratio=ours / sheet,
                    target="at most 150 ms",
                )
            painted = _first_paint(f"{url}/notes")
            yield Row(
                name="/notes, first paint in Chromium",
                ours=painted,
                baseline=ours,
                ratio=painted / ours,
                target="at most 1 s",
            )


@contextmanager
def _served(home: str) -> Iterator[str]:
    argv = (sys.executable, "-m", "app", "ui", "--port", "0", "--json")
    env = {**os.environ, "HARNESS_HOME": home}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None:
            raise TypeError("asked for a pipe and got none")
        try:
            printed = "".join(iter(process.stdout.readline, "}\n")) + "}"
            yield json.loads(printed)["url"].rstrip("/")
        finally:
            process.terminate()


def _p50(client: httpx.Client, path: str) -> float:
    times = []
    for _ in range(ROUNDS + 1):
        began = perf_counter()
        client.get(path).raise_for_status()
        times.append(perf_counter() - began)
    return statistics.median(times[1:])


def _first_paint(url: str) -> float:
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-headless-shell") or "chromium"
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        page = browser.new_page()
        page.goto(url)
        # The browser may paint only after the page has loaded.
        painted = page.wait_for_function(_PAINTED).json_value()
        browser.close()
    return float(painted) / 1000
