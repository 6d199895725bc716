"""Broken blueprints: one line with file, line and node; none is accepted that cannot run."""

import random
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from blueprints.dry_run import dry_run
from blueprints.engine import execute_blueprint
from blueprints.find import find_blueprint
from blueprints.types import Blueprint
from contracts.errors import BlueprintInvalid
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from nodes.types import Agentic
from sandbox.scripted import ScriptedSandbox
from tests.support.workspace import context

HEAD = """
from blueprints.dsl import *
from contracts.run import NodeResult, RunContext
from nodes.checks import has_tools, was_skipped
from nodes.commands import command, shell

def work(ctx, sandbox): return NodeResult.success("done")
def prompt(ctx): return f"do {ctx.intent}"
def of_one(ctx): return NodeResult.success()
def text(ctx, sandbox) -> str: return "done"
async def later(ctx, sandbox): return NodeResult.success()
def lines(ctx): yield "line"
fix = agentic("other", "", prompt=prompt)
"""


def write(folder: Path, *nodes: str, name: str = "'broken'", more: str = "") -> Path:
    """Write a blueprint of these nodes, one on each line."""
    inner = "".join(f"    {node},\n" for node in nodes)
    file = folder / "broken.py"
    file.write_text(f"{HEAD}made = blueprint({name}, 'A test', [\n{inner}]{more})\n")
    return file


def check(file: Path) -> Blueprint:
    found = find_blueprint(f"{file}:made")
    dry_run(found)
    return found


def refused(file: Path) -> str:
    with pytest.raises(BlueprintInvalid) as caught:
        check(file)
    message = str(caught.value)
    assert re.match(rf"{re.escape(str(file))}:\d+: ", message), message
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("deterministic('a', '', 'make test')", "node 'a' has exec='make test': it must be a func"),
        ("deterministic('a', '', of_one)", "too many positional arguments"),
        ("deterministic('a', '', text)", "returns a NodeResult, not a str"),
        ("deterministic('a', '', later)", "node 'a' has exec=.* without async and yield"),
        ("deterministic('a', '', command)", "node 'a' has exec=.*, not .*Callable"),
        ("deterministic('a', '', NodeResult)", "node 'a' has exec="),
        ("deterministic('a', '', work, skip=True)", "node 'a' has skip=True: .* function of .ctx"),
        ("deterministic('a', '', work, skip=lambda: True)", "node 'a' has skip="),
        ("deterministic('a', '', work, skip=lambda ctx: True)", "'a' is never reached"),
        ("deterministic('a', '', work, skip=was_skipped('b'))", "skip of node 'a' fails: KeyError"),
        ("deterministic('a', '', work, timeout_s='5')", "node 'a' has timeout_s='5'"),
        ("deterministic('a', '', work, timout_s=5)", r"deterministic\('a', …\): .*'timout_s'"),
        ("deterministic('a', '')", r"deterministic\('a', …\): missing a required argument: 'exec'"),
        ("deterministic(5, '', work)", "a node has the name 5: a name must be text"),
        ("deterministic('a', None, work)", "node 'a' has description=None: it must be text"),
        ("command('true')", "blueprint 'broken' has _Run.* in nodes: give nodes"),
        ("preflight('a', '', lambda: work)", "node 'a' has check="),
        ("agentic('a', '', prompt='do it')", "node 'a' has prompt='do it': it must be a function"),
        ("agentic('a', '', prompt=lambda ctx: 5)", "node 'a' has a prompt that returns 5"),
        ("agentic('a', '', prompt=lambda ctx: ctx.intnt)", "prompt of node 'a' fails: Attribute"),
        ("agentic('a', '', prompt=lambda ctx: ctx.options['x'])", "node 'a' fails: KeyError: 'x'"),
        ("agentic('a', '', prompt=lines)", "node 'a' has prompt="),
        ("agentic('a', '', prompt=prompt, agent='gpt')", "'a' has agent='gpt': it must be one of"),
        ("agentic('a', '', prompt=prompt, allowed_tools='read')", "'a' has allowed_tools='read'"),
        ("agentic('a', '', prompt=prompt, allowed_tools=['rd'])", "'a' has an unknown allowed"),
        ("agentic('a', '', prompt=prompt, model=5)", "node 'a' has model=5: it must be text"),
        ("agentic('a', '', prompt=prompt, model=[])", r"node 'a' has model=\[\]: it must be text"),
        ("agentic('a', '', prompt=prompt, model=[5])", "node 'a' has 5 in model: give names of"),
        ("validate('a', '', steps=[work], on_failure=fix)", "node 'a' has <function .* in steps"),
        (
            "validate('a', '', steps=[step('s', work)], on_failure=deterministic('b', '', work))",
            "node 'a' has on_failure=.*: it must be an agent",
        ),
        (
            "validate('a', '', steps=[step('s', work)], on_failure=fix, max_retries=0)",
            "node 'a' has max_retries=0, so its agent 'other' is never reached",
        ),
        ("validate('a', '', steps=[step('s', 's')], on_failure=fix)", "step 's' has exec='s'"),
        ("parallel('a', '', [work])", "node 'a' has lanes=<function"),
        ("parallel('a', '', [[]])", "node 'a' has no lanes or an empty one"),
        ("parallel('a', '', 5)", "node 'a' has lanes=5"),
        ("compete('a', '', '2', prompt=prompt, steps=[step('s', work)])", "node 'a' has n='2'"),
        ("compete('a', '', 2, prompt=prompt, steps=[])", "node 'a' needs two agents"),
        (
            "compete('a', '', prompt=prompt, steps=[step('s', work)], judge=of_one)",
            "node 'a' has judge=",
        ),
        ("deterministic('a', '', command('make test'))", "TypeError: .* use command"),
        ("comment('a', '')", "node 'a' has a place with no agentic node before it: .*: none"),
        ("comment('a', '', on='repo')", "node 'a' has on='repo': it must be one of issue, pull"),
        ("comment('a', '', max_count=0)", "node 'a' has max_count=0: .* from 1 to 20"),
        ("comment('a', '', max_chars=10**6)", "node 'a' has max_chars=1000000: .* to 20000"),
        ("comment('a', '', by='first')", "node 'a' has by='first', which is no agentic node"),
        ("comment('a', '', by=5)", "node 'a' has by=5: it must be text"),
        ("comment('a', '', required='yes')", "node 'a' has required='yes'"),
        ("label('a', '')", r"label\('a', …\): missing a required argument: 'allowed'"),
        ("label('a', '', [])", "node 'a' has no label in allowed"),
        ("label('a', '', 'bug')", "node 'a' has allowed='bug': it must be a list"),
        ("label('a', '', ['bug', 5])", "node 'a' has 5 in allowed"),
        ("label('a', '', ['a,b'])", "node 'a' has the label 'a,b' in allowed"),
        ("open_issue('a', '', labels=[' x'])", "node 'a' has the label ' x' in labels"),
        ("open_issue('a', '', body='x')", r"open_issue\('a', …\): .*'body'"),
        ("review('a', '', verdicts=['merge'])", r"node 'a' has verdicts=\['merge'\]: .* some of"),
        ("review('a', '', verdicts=[])", r"node 'a' has verdicts=\[\]"),
        ("review('a', '', max_comments=0)", "node 'a' has max_comments=0"),
        ("pull_request('a', '', draft=1)", "node 'a' has draft=1: it must be True or False"),
        ("notify('a', '', 'team')", "node 'a' has block='team': it must be TYPE/NAME"),
        ("notify('a', '', 5)", "node 'a' has block=5"),
        ("parallel('a', '', [[fix, comment('b', '')]])", "node 'b' stands in a lane"),
    ],
)
def test_a_broken_node_is_refused_with_its_file_line_and_name(
    tmp_path: Path, node: str, said: str
) -> None:
    first = "deterministic('first', '', work)"
    file = write(tmp_path, first, node)
    message = refused(file)
    assert re.search(said, message)
    # The line of the node itself; what only the whole list shows is on the line of the list.
    lines = file.read_text().splitlines()
    where = int(message.removeprefix(f"{file}:").partition(":")[0])
    assert where - 1 in {lines.index(f"    {node},"), lines.index(f"    {first},") - 1}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (", options=['level']", r"has options=\['level'\]: it must be a mapping"),
        (", options={'level': None}", r"has options\['level'\]=None: it must be text"),
        (", options={'a=b': ''}", "has an option 'a=b', which --set cannot name"),
        (", egress='mirror.example'", "has egress='mirror.example': it must be a list"),
        (", changes=[5]", "has 5 in changes"),
        (", needs_intent='yes'", "has needs_intent='yes': it must be True or False"),
        (", opts={}", r"blueprint\('broken', …\): got an unexpected keyword argument 'opts'"),
    ],
)
def test_a_broken_setting_is_refused(tmp_path: Path, more: str, said: str) -> None:
    assert re.search(said, refused(write(tmp_path, "fix", more=more)))


@pytest.mark.parametrize(
    "prompt",
    [
        "lambda ctx: ctx.options['level']",
        "lambda ctx: str(int(ctx.results['first'].output))",
        "lambda ctx: ctx.results['first'].output",
    ],
)
def test_a_prompt_need_suit_one_sample_only(tmp_path: Path, prompt: str) -> None:
    node = f"agentic('a', '', prompt={prompt})"
    options = ", options={'level': ''}"
    check(write(tmp_path, "deterministic('first', '', work)", node, more=options))


VALUES = (
    "None", "True", "0", "-1", "5", "1.5", "float('nan')", "''", "'make test'", "'a'", "b'x'", "[]",
    "['x']", "[5]", "{}", "{'a': 1}", "object()", "work", "prompt", "of_one", "text", "later",
    "lines", "lambda: 1", "lambda ctx: 1", "lambda ctx: ''", "lambda ctx: ctx.nope", "print",
    "NodeResult", "command", "command('true')", "fix", "[fix]", "[[fix]]", "step('t', work)",
    "[step('t', work)]", "deterministic('z', '', work)", "[deterministic('z', '', work)]",
    "'two\\nlines'", "'\\udcff'", "'x (attempt 1)'", "was_skipped('first')", "('native', 'pi')",
)  # fmt: skip
"""Values of every kind: each is wrong for most parameters and right for some."""

NODE = {"name": "'a'", "description": "''", "skip": "None", "timeout_s": "None"}
AGENT = {"agent": "None", "model": "None", "allowed_tools": "None", "max_turns": "5"}
STEPS = "[step('s', work)]"
WORDS: Mapping[str, Mapping[str, str]] = {
    "preflight": {**NODE, "check": "work"},
    "deterministic": {**NODE, "exec": "work"},
    "agentic": {**NODE, **AGENT, "prompt": "prompt", "max_tokens": "None"},
    "validate": {**NODE, "steps": STEPS, "on_failure": "fix", "max_retries": "1"},
    "parallel": {"name": "'a'", "description": "''", "lanes": "[[fix]]", "skip": "None"},
    "compete": {"name": "'a'", "description": "''", "n": "2", "prompt": "prompt", "steps": STEPS},
}


def random_node(choose: random.Random) -> str:
    """A node of any word, with up to two arguments that are of any kind, missing or unknown."""
    word = choose.choice(list(WORDS))
    arguments = dict(WORDS[word])
    for name in choose.sample([*arguments, "nope"], k=choose.choice((1, 1, 2))):
        arguments[name] = choose.choice(VALUES)
    if choose.random() < 0.1:
        del arguments[choose.choice(list(arguments))]
    return f"{word}({', '.join(f'{name}={value}' for name, value in arguments.items())})"


def ask(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """An agent that does what its prompt says: nothing."""
    return NodeResult.success(node.prompt(ctx) + "")


def test_no_random_blueprint_is_accepted_that_cannot_run(tmp_path: Path) -> None:
    choose = random.Random(29)  # noqa: S311 - which examples, not a secret
    accepted = 0
    for _ in range(400):
        name = choose.choice(VALUES) if choose.random() < 0.05 else "'broken'"
        nodes = ["deterministic('first', '', work)", random_node(choose)]
        file = write(tmp_path, *nodes, name=name)
        try:
            found = check(file)
        except BlueprintInvalid:
            refused(file)
            continue
        with ScriptedSandbox() as sandbox:
            execute_blueprint(found, context(sandbox), sandbox=sandbox, run_agent=ask)
        accepted += 1
    assert 20 < accepted < 200


def test_a_second_pull_request_is_refused(tmp_path: Path) -> None:
    nodes = ("fix", "pull_request('a', '')", "pull_request('b', '')")
    assert "node 'b' is a second pull_request" in refused(write(tmp_path, *nodes))
