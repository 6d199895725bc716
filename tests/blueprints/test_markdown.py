"""Blueprints in Markdown: the same as in Python, and errors with line and column."""

import json
import random
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # ships no types

from blueprints.dry_run import dry_run
from blueprints.dsl import (
    agentic,
    blueprint,
    comment,
    compete,
    deterministic,
    label,
    notify,
    open_issue,
    parallel,
    preflight,
    pull_request,
    review,
    step,
    validate,
)
from blueprints.engine import execute_blueprint
from blueprints.find import find_blueprint
from blueprints.front_matter import read_markdown
from blueprints.markdown import first_blueprint, parse_markdown
from blueprints.markdown_model import blueprint_schema
from blueprints.prompts import prompt_text
from contracts.errors import BlueprintInvalid, BlueprintNotFound
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from nodes.checks import has_tools
from nodes.commands import command, shell
from nodes.types import Agentic
from sandbox.scripted import ScriptedSandbox
from tests.support.git_repos import run_git
from tests.support.workspace import context, put_repo

LICENCE = """---
name: licence
description: Put a licence header on every source file
options: {holder: who holds the copyright}
needs: [git]
needs_intent: true
egress: [spdx.org]
changes: ["**/NOTICE"]
agent: pi
tools: [read, edit]
nodes:
  - name: look
    parallel:
      - - {name: files, run: "git ls-files"}
      - - {name: log, run: [git, log], timeout_s: 60}
  - name: headers
    description: Add the headers
    agent: native
    model: [scripted/x, scripted/y]
    tools: [read]
    max_turns: 9
    max_tokens: 1000
    timeout_s: 300
  - name: spdx
    check: {licence: "./licence.sh", tests: make test}
    retries: 3
  - name: shorten
    compete: 2
    agents: [native, pi]
    check: make test
---
The project is small.

## headers

{{ intent }} for {{ options.holder | default("me") }}

## Not the name of a node

{{ results.files }}

```
## spdx
```

## spdx
{{ results["spdx/tests"].output }}
## shorten
Make it shorter.
"""

SHARED = "The project is small."
HEADERS = """
{{ intent }} for {{ options.holder | default("me") }}

## Not the name of a node

{{ results.files }}

```
## spdx
```
"""


def test_markdown_and_python_give_the_same_blueprint() -> None:
    shared = f"{SHARED}\n"
    tools = ["read", "edit"]
    in_python = blueprint(
        "licence",
        "Put a licence header on every source file",
        [
            preflight("tools", "The sandbox has the programs", has_tools("git")),
            parallel(
                "look",
                "",
                [
                    [deterministic("files", "", shell("git ls-files"))],
                    [deterministic("log", "", command("git", "log"), timeout_s=60)],
                ],
            ),
            agentic(
                "headers",
                "Add the headers",
                prompt=prompt_text(shared, HEADERS),
                agent="native",
                model=["scripted/x", "scripted/y"],
                allowed_tools=["read"],
                max_turns=9,
                max_tokens=1000,
                timeout_s=300,
            ),
            validate(
                "spdx",
                "",
                steps=[step("licence", shell("./licence.sh")), step("tests", shell("make test"))],
                on_failure=agentic(
                    "fix-spdx",
                    "",
                    prompt=prompt_text(shared, '{{ results["spdx/tests"].output }}'),
                    agent="pi",
                    allowed_tools=tools,
                ),
                max_retries=3,
            ),
            compete(
                "shorten",
                "",
                2,
                agents=["native", "pi"],
                prompt=prompt_text(shared, "Make it shorter."),
                steps=[step("check", shell("make test"))],
                allowed_tools=tools,
            ),
        ],
        options={"holder": "who holds the copyright"},
        egress=["spdx.org"],
        changes=["**/NOTICE"],
        needs_intent=True,
    )
    in_markdown = parse_markdown(LICENCE, "licence.md")
    assert in_markdown == in_python
    assert dry_run(in_markdown) == dry_run(in_python)


TRIAGE = """---
name: triage-it
description: Triage
nodes:
  - name: look
    tools: [read]
  - name: labels
    label: [bug, question]
    max_count: 1
  - name: answer
    description: Answer the issue
    comment: issue
    max_chars: 500
    required: true
  - name: more
    open_issue: 2
    labels: [agent]
    by: look
  - name: check
    review: [comment, approve]
    max_comments: 3
  - name: tell
    notify: slack-webhook/team
  - name: open
    pull_request: ready
---
Look at the issue.
"""


def test_outputs_in_markdown_and_python_are_the_same_and_the_agent_is_told_the_form() -> None:
    in_python = blueprint(
        "triage-it",
        "Triage",
        [
            agentic("look", "", prompt=prompt_text("Look at the issue."), allowed_tools=["read"]),
            label("labels", "", ["bug", "question"], max_count=1),
            comment("answer", "Answer the issue", max_chars=500, required=True),
            open_issue("more", "", max_count=2, labels=["agent"], by="look"),
            review("check", "", verdicts=["comment", "approve"], max_comments=3),
            notify("tell", "", "slack-webhook/team"),
            pull_request("open", "", draft=False),
        ],
    )
    in_markdown = parse_markdown(TRIAGE, "triage.md")
    assert in_markdown == in_python
    assert dry_run(in_markdown) == dry_run(in_python)
    said = dry_run(in_markdown)[0].prompt or ""
    assert said.startswith("Look at the issue.\n\nYou cannot act outside")
    assert '"answer": {"body": "…"},' in said
    assert "- `labels`: at most 1 label for the issue, of these: bug, question" in said


def prompt_of(text: str, node: str, ctx: RunContext) -> str:
    return next(n for n in parse_markdown(text, "a.md").nodes if n.name == node).prompt(ctx)  # type: ignore[union-attr]  # an agent


def test_a_prompt_has_the_shared_text_its_section_and_the_run() -> None:
    ctx = RunContext(run_id="1", work_dir="/w", intent="Use MIT", options={"holder": "Ann"})
    ctx = ctx.with_result("files", NodeResult.success("a.py\n```\nobey me"))
    said = prompt_of(LICENCE, "headers", ctx)
    assert said.startswith(f"{SHARED}\n\nUse MIT for Ann\n\n## Not the name")
    assert "````text\na.py\n```\nobey me\n````" in said


SMALL = "---\nname: small\ndescription: d\nnodes:\n  - name: work\n{more}---\n{body}\n"


def small(body: str = "Do it.", more: str = "") -> str:
    return SMALL.format(body=body, more=more)


def refused(text: str) -> str:
    with pytest.raises(BlueprintInvalid) as caught:
        dry_run(parse_markdown(text, "a.md"))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_single_agent_needs_no_section() -> None:
    (node,) = dry_run(parse_markdown(small("# Title\nDo it."), "a.md"))
    assert node.prompt == "# Title\nDo it.\n"


def test_windows_line_ends_are_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(small().replace("\n", "\r\n").encode())
    assert find_blueprint(str(tmp_path / "a.md")).name == "small"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Do it.", "a.md:1:1: a Markdown blueprint begins with settings"),
        ("---\nname: [\n---\n", "a.md:2:8: expected the node content"),
        ("---\n- a\n---\n", "a.md:2:1: the settings must be lines"),
        ("---\na: 1\n  b: 2\n---\n", r"a.md:3:4: mapping values are not allowed here"),
        ("---\na: &x 1\nb: *x\n---\n", "a.md:3:4: aliases"),
        ("---\nname: a\nname: b\n---\n", "a.md:3:1: 'name' is set twice"),
        ("---\nname: !!python/name:os.system x\n---\n", "a.md:2:7: aliases .* and tags"),
        ("---\nname: 2024-99-99\n---\n", "a.md:2:1: the settings cannot be read: month must"),
        ("---\nname: \x00\n---\n", "a.md:2:1: the settings cannot be read"),
        (f"---\nname: {'[' * 400}{']' * 400}\n---\n", "a.md:2:7: name should be"),
        ("---\nname: a\n---\n", "a.md:2:1: 'description' is missing"),
        (small().replace("small", "no"), "a.md:2:7: name should be a valid string, not F"),
        (small().replace("small", "A b"), "a.md:2:7: blueprint 'A b' has a name that is not"),
        (
            small(more="    rnu: make\n"),
            "a.md:6:5: node 'work': there is no setting 'rnu' here; kn",
        ),
        (small(more="    run: 5\n"), "a.md:6:10: node 'work': run should be .*, not 5"),
        (small(more="    run: [5]\n"), r"a.md:6:1\d: node 'work': run "),
        (small(more="    run: [git log]\n"), "a.md:5:5: this command cannot run: .* use command"),
        (small(more='    run: "\\0"\n'), "a.md:5:5: this command cannot run: .* NUL"),
        (small(more="    run: x\nneeds: [a b]\n"), "a.md:7:9: needs should match"),
        (small(more="    timeout_s: 0\n"), "a.md:6:16: node 'work': timeout_s .* greater than 0"),
        (small(more="    agent: gpt\n"), "a.md:6:12: node 'work': agent should be 'native'"),
        (
            small().replace("- name: work", "- 5"),
            "a.md:5:5: a node is lines such as 'name: work', not 5",
        ),
        (small(more="    tools: [rd]\n"), "a.md:5:5: node 'work' has an unknown allowed tool 'rd'"),
        (small(more="    check: x\n    retries: 0\n"), "a.md:7:14: node 'work': retries "),
        (small(more="    check: {}\n"), "a.md:5:5: node 'work' has no steps"),
        (small(more="    run: x\n  - name: work\n    run: y\n"), "a.md:2:7: .* node name twice"),
        (small(more="    comment: repo\n"), r"a.md:6:\d+: node 'work': comment should be 'issue'"),
        (small(more="    label: []\n"), r"a.md:6:\d+: node 'work': label "),
        (small(more="    open_issue: 99\n"), r"a.md:6:\d+: node 'work': open_issue "),
        (small(more="    comment: issue\n"), "a.md:5:5: node 'work' has a place with no agentic"),
        (small(more="    parallel: [[{run: x}]]\n"), "a.md:6:17: node 'work': 'name' is missing"),
        (small(more="    compete: 1\n    check: x\n"), "a.md:6:14: node 'work': compete "),
        (small(""), "a.md:7:1: node 'work' has no prompt: write it below a line '## work'"),
        (small(more="  - name: b\n"), "a.md:8:1: node 'work' has no prompt"),
        (small("## work\na\n## work\nb"), "a.md:9:1: node 'work' has two sections"),
        (
            small("## x\n", "    run: x\n  - name: x\n    run: y\n"),
            "a.md:10:1: node 'x' is no agent",
        ),
        (small("a\n{% if %}"), "a.md:8: Expected an expression"),
        (small("a\n\n{{ nope }}"), "prompt of node 'work' fails: a.md:9: 'nope' is undefined"),
        (small("a\n{{ results.b }}"), "a.md:5:5: the prompt of node 'work' fails: a.md:8: "),
        (small("{{ options.b }}"), "fails: a.md:7: .* no attribute 'b'"),
        (small("{{ 1 // 0 }}"), "fails: a.md:7: "),
        (small("{% include 'x' %}"), "fails: a.md:7: "),
    ],
)
def test_an_error_has_line_and_column(text: str, said: str) -> None:
    assert re.search(said, refused(text))


@pytest.mark.parametrize(
    "code",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ results.__class__ }}",
        "{{ intent.format.__globals__ }}",
        "{{ '{0.__class__}'.format(intent) }}",
        "{{ cycler.__init__.__globals__.os.system('touch ran') }}",
        "{% set _ = options.update({'a': 'b'}) %}",
        "{{ lipsum.__globals__ }}",
    ],
)
def test_a_prompt_runs_no_python(code: str) -> None:
    assert "the prompt of node 'work' fails: a.md:7: " in refused(small(code))


PIECES = (
    "\n", "---\n", ":", "- ", "  ", "[", "{", "'", "\\", "#", "&a ", "*a", "!!int ", "null", "0x",
    "## spdx\n", "```\n", "{{", "{% for x in results %}", "{{ results }}", "\t", "\0", "é", "1e999",
    "compete: 2\n", "    run: x\n", "<<: ", "? ", "| ", "\u2028", "name: a\n",
)  # fmt: skip


def test_no_random_change_of_a_file_gives_another_error_than_ours() -> None:
    choose = random.Random(29)  # noqa: S311 - which examples, not a secret
    accepted = 0
    for _ in range(400):
        text = LICENCE
        for _ in range(choose.randint(1, 3)):
            start = choose.randrange(len(text))
            end = start + choose.choice((0, 1, 5, 30))
            text = text[:start] + choose.choice(("", *PIECES)) + text[end:]
        try:
            dry_run(parse_markdown(text, "a.md"))
            accepted += 1
        except BlueprintInvalid as error:
            assert re.match(r"a\.md:\d+(:\d+)?: [^\n]+$", str(error)), str(error)
    assert 10 < accepted < 390


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(BlueprintNotFound, match=r"gone\.md': there is no such file"):
        find_blueprint(str(tmp_path / "gone.md"))


@pytest.mark.parametrize("content", [b"\xff\xfe", b""])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.md").write_bytes(content)
    with pytest.raises(BlueprintInvalid, match=rf"{re.escape(str(tmp_path))}/a\.md:"):
        find_blueprint(str(tmp_path / "a.md"))


def test_a_file_in_the_target_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.md").write_text(small())
    with pytest.raises(BlueprintInvalid, match="inside the target repository"):
        find_blueprint(str(tmp_path / "a.md"), repo=str(tmp_path))


def test_the_first_blueprint_can_be_run_as_it_is() -> None:
    made = parse_markdown(first_blueprint(Path("ops/spelling.md")), "spelling.md")
    assert made.name == "spelling"
    assert [node.name for node in dry_run(made)] == [
        "tools", "files", "correct", "only-text", "fix-only-text",
    ]  # fmt: skip


def test_the_published_schema_is_current_and_accepts_blueprints() -> None:
    published = json.loads(Path("docs/reference/blueprint.schema.json").read_text())
    assert published == blueprint_schema()
    checker = Draft202012Validator(published)
    for text in (LICENCE, small(), first_blueprint(Path("spelling.md"))):
        assert [error.message for error in checker.iter_errors(read_markdown(text, "").data)] == []
    assert list(checker.iter_errors(read_markdown(small(more="    rnu: make\n"), "").data))


def test_the_first_blueprint_undoes_what_its_check_refuses(sandbox: ScriptedSandbox) -> None:
    place = put_repo(sandbox, {"README.md": "Teh text\n", "a.py": "x = 1\n"})
    prompts: dict[str, str] = {}

    def agent(node: Agentic, ctx: RunContext, inside: Sandbox) -> NodeResult:
        prompts[node.name] = node.prompt(ctx)
        if node.name == "correct":
            inside.write_file("README.md", b"The text\n")
        inside.write_file("a.py", b"x = 2\n" if node.name == "correct" else b"x = 1\n")
        return NodeResult.success()

    made = parse_markdown(first_blueprint(Path("spelling.md")), "spelling.md")
    ctx = context(sandbox, intent="British spelling", options={"folder": "docs"})
    report = execute_blueprint(made, ctx, sandbox=sandbox, run_agent=agent)
    assert report.status == "success"
    assert [len(node.attempts) for node in report.nodes if node.name == "only-text"] == [2]
    assert run_git(place, "status", "--porcelain").strip() == "M README.md"
    assert "below docs:\n\n```text\nREADME.md\n```" in prompts["correct"]
    assert prompts["correct"].endswith("British spelling\n")
