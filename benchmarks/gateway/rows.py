"""The gateway's figures, each against the same litellm call made directly."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import httpx

from benchmarks.gateway.process import SECRET
from benchmarks.row import Row
from contracts.agents import NATIVE
from contracts.model_access import TokenSpec
from flows.runs.home import TRAJECTORY
from providers.account import MAX_CONCURRENT
from providers.client import Gateway
from providers.gateway_api import RunTerms
from providers.models import litellm

CALLS = 100
BATCHES = 5
STREAMS = 64
SHORT = "openai/gpt-4o-20x20@0"
TURN = {"role": "user", "content": "Fix the failing test. " * 200}


class Bench(NamedTuple):
    """A gateway in a process of its own, and a run in it."""

    http: httpx.Client
    pid: int
    token: Callable[[str], str]


class Times(NamedTuple):
    """Seconds to the first byte of text, and to the end."""

    first: float
    whole: float


def rows() -> Iterator[Row]:
    """All of the gateway's rows."""
    with _bench() as bench:
        yield from _overhead(bench)
        yield _streams(bench)
        yield _memory(bench)


@contextmanager
def _bench() -> Iterator[Bench]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        _, provider = start(stack, "benchmarks.gateway.provider", {})
        env = {"OPENAI_API_BASE": provider, "OPENAI_API_KEY": "sk-benchmark"}
        os.environ.update(env)
        pid, url = start(stack, "benchmarks.gateway.process", env)
        client = Gateway(url, SECRET)
        stack.callback(client.close)
        terms = RunTerms(run_id="bench", trajectory=folder / TRAJECTORY)
        open_gate = stack.enter_context(client.run(terms))

        def token(model: str) -> str:
            gate = open_gate(TokenSpec(node="n", agent=NATIVE, model=model))
            return stack.enter_context(gate).token

        limits = httpx.Limits(max_connections=STREAMS)
        http = stack.enter_context(httpx.Client(base_url=url, timeout=120, limits=limits))
        yield Bench(http, pid, token)


def start(stack: ExitStack, module: str, env: dict[str, str]) -> tuple[int, str]:
    """Start a server that prints its address; its pid and address. It ends with the stack."""
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdout=subprocess.PIPE,
        env={**os.environ, **env},
        text=True,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    assert process.stdout is not None
    stack.callback(process.stdout.close)
    return process.pid, process.stdout.readline().strip()


def _overhead(bench: Bench) -> Iterator[Row]:
    token = bench.token(SHORT)
    for _ in range(10):
        _direct(SHORT)
        _through(bench, token)
    batches = [_batch(bench, token) for _ in range(BATCHES)]
    # The least disturbed one, as the direct calls tell: others may be at work on this machine.
    direct, through = min(batches, key=lambda batch: _percentile([t.whole for t in batch[0]], 99))
    for kind, part in enumerate(("first byte", "whole answer")):
        for percent, bound in ((50, 5), (99, 20)):
            ours = _percentile([times[kind] for times in through], percent)
            base = _percentile([times[kind] for times in direct], percent)
            yield Row(
                name=f"gateway, {part} p{percent}",
                ours=ours * 1000,
                baseline=base * 1000,
                ratio=ours / base,
                target=f"at most {bound} ms more",
                unit="ms",
                note=f"{(ours - base) * 1000:+.1f} ms on the same litellm call",
            )


def _batch(bench: Bench, token: str) -> tuple[list[Times], list[Times]]:
    """Calls in turns: directly, and through the gateway."""
    pairs = [(_direct(SHORT), _through(bench, token)) for _ in range(CALLS)]
    direct, through = zip(*pairs, strict=True)
    return list(direct), list(through)


def _streams(bench: Bench) -> Row:
    model = "openai/gpt-4o-100x50@20"
    tokens = [bench.token(model) for _ in range(STREAMS // MAX_CONCURRENT)]
    began = time.monotonic()
    expected = _text(bench, tokens[0])
    alone = time.monotonic() - began
    began = time.monotonic()
    with ThreadPoolExecutor(STREAMS) as pool:
        texts = list(pool.map(lambda token: _text(bench, token), tokens * MAX_CONCURRENT))
    together = time.monotonic() - began
    whole = sum(text == expected and len(text) == 5000 for text in texts)
    return Row(
        name=f"gateway, {STREAMS} streams at once of {len(tokens)} agents",
        ours=together,
        baseline=alone,
        ratio=together / alone,
        target="none is lost",
        note=f"{whole} of {STREAMS} came whole; the baseline is one alone",
    )


def _memory(bench: Bench) -> Row:
    small = _grown(bench, "openai/gpt-4o-500x10000@0")
    large = _grown(bench, "openai/gpt-4o-5000x10000@0")
    return Row(
        name="gateway, memory after 50 MB in one stream",
        ours=large,
        baseline=small,
        ratio=large / small,
        target="constant",
        unit="MB",
        note="peak of the process; the baseline is its peak after 5 MB",
    )


def _grown(bench: Bench, model: str) -> float:
    token, size = bench.token(model), 0
    with _stream(bench, token) as response:
        for part in response.iter_bytes():
            size += len(part)
    assert size > int(model[14:].partition("x")[0]) * 10_000
    status = Path(f"/proc/{bench.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _direct(model: str) -> Times:
    began, first = time.perf_counter(), 0.0
    options = {"stream": True, "stream_options": {"include_usage": True}}
    for chunk in litellm().completion(model=model, messages=[TURN], **options):
        if not first and chunk.choices and chunk.choices[0].delta.content:
            first = time.perf_counter() - began
    return Times(first, time.perf_counter() - began)


def _through(bench: Bench, token: str) -> Times:
    began, first = time.perf_counter(), 0.0
    with _stream(bench, token) as response:
        for part in response.iter_bytes():
            if not first and b"000000" in part:
                first = time.perf_counter() - began
    return Times(first, time.perf_counter() - began)


def _text(bench: Bench, token: str) -> str:
    found = []
    with _stream(bench, token) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line[6:])["choices"]
                found.append(choices[0]["delta"].get("content", "") if choices else "")
    return "".join(found)


@contextmanager
def _stream(bench: Bench, token: str) -> Iterator[httpx.Response]:
    body = {"model": "m", "messages": [TURN], "stream": True}
    headers = {"authorization": f"Bearer {token}"}
    with bench.http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
        yield response


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]
