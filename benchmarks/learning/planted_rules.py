"""Planted rules: agents succeed once the right rule is in their prompt, which only failures teach.

Store, embedding, search, prompt, credit and reflection are the product's; the agent and the model
that reflects are scripted. No two tasks of a family have the same words.
"""

import json
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.memory import corpus, retrieval
from benchmarks.row import Row
from contracts.chat import ChatRequest, Message, Reply
from contracts.run import NodeReport, RunReport
from memory.playbooks.learn import can_reflect, credited_playbook, record_run, reflect
from memory.playbooks.library import Library, open_library
from memory.playbooks.recall import recall_playbooks
from memory.types import Embedder, RecallOptions
from providers import minilm

FAMILIES = Path(__file__).with_name("families.txt")
ROUNDS = 3
LUCK = 0.1
"""Share of tasks that succeed without the rule."""

WRONG_LESSONS = 0.1
"""Share of reflections that draw a wrong conclusion. The person refuses these."""

DISTRACTORS = 40
ALL_SHOWN = RecallOptions(holdout_share=0.0)


class Family(NamedTuple):
    """Tasks of one kind, and the rule that they need."""

    title: str
    rule: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One variant of the replay."""

    name: str
    playbooks: int = DISTRACTORS
    reviews: bool = False
    """A person looks at the lessons after each round, and refuses wrong ones; without, somebody
    accepts everything after each run."""


SETTINGS = (
    Setting(name="all lessons accepted"),
    Setting(name="a person reviews each round", reviews=True),
    Setting(name="a person, 1,000 playbooks", reviews=True, playbooks=1_000),
)


def rows() -> Iterator[Row]:
    """The share of tasks that succeed, by round."""
    families = read_families()
    for setting in SETTINGS:
        for number, share in enumerate(replay(families, setting, seed=1), 1):
            yield Row(
                name=f"learned, {setting.name}, round {number}",
                ours=share,
                baseline=LUCK,
                ratio=share / LUCK,
                target="at least 9.5" if number == ROUNDS else "none",
                unit="",
                note="baseline: success without a rule",
            )


def read_families() -> list[Family]:
    """Return the families of the file."""
    lines = [line.split(" | ") for line in FAMILIES.read_text().splitlines()]
    return [Family(title, rule, tuple(tasks)) for title, rule, *tasks in lines]


def replay(families: list[Family], setting: Setting, *, seed: int) -> list[float]:
    """Return the share of tasks that succeed in each round."""
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        home = Path(folder)
        model = Embedder(name=minilm.NAME, embed=minilm.embed)
        with open_library(home / "harness.db", index=home / "index", embedder=model) as library:
            _add_distractors(library, setting.playbooks)
            return list(_Replay(library, families, setting, random.Random(seed)).rounds())  # noqa: S311 - repeatable


def _add_distractors(library: Library, number: int) -> None:
    procedures, _ = retrieval.read(retrieval.PROCEDURES)
    more = corpus.contents(max(0, number - len(procedures)))
    if more:
        corpus.fill(library, more, corpus.vectors(more))  # first: it numbers its rows from 1
    for content in procedures[:number]:
        library.create(content)


class _Task(NamedTuple):
    run_id: str
    family: Family
    text: str


@dataclass
class _Replay:
    library: Library
    families: list[Family]
    setting: Setting
    lot: random.Random

    def rounds(self) -> Iterator[float]:
        for number in range(ROUNDS):
            tasks = [
                _Task(f"{number}-{family.title[:30]}-{text[:20]}", family, text)
                for family in self.families
                for text in family.tasks[number::ROUNDS]
            ]
            self.lot.shuffle(tasks)
            yield sum(self._run(task) for task in tasks) / len(tasks)
            self._review()

    def _run(self, task: _Task) -> bool:
        """Do one task as a run does: search, work, reflect, record."""
        shown = recall_playbooks(
            self.library, run_id=task.run_id, task=task.text, options=ALL_SHOWN
        )
        followed = [
            hit.playbook.slug
            for hit in shown.results.hits
            if any(task.family.rule in lesson.text for lesson in hit.playbook.lessons)
        ]
        knows = task.family.rule in shown.text
        success = knows or self.lot.random() < LUCK
        report = _report(task, success=success, followed=followed[0] if knows else "")
        reflection = None
        if can_reflect(self.library, report):

            def complete(request: ChatRequest) -> Reply:
                return self._conclude(request, task, success=success)

            playbook = credited_playbook(self.library, report)
            reflection = reflect(complete, "scripted", report, playbook)
        record_run(self.library, report, reflection=reflection)
        if not self.setting.reviews:
            self._review()
        return success

    def _conclude(self, request: ChatRequest, task: _Task, *, success: bool) -> Reply:
        """Answer as a model that reads the failing output, and sees whose playbook was shown."""
        (prompt,) = (message.content for message in request.messages)
        rule = task.family.rule
        if self.lot.random() < WRONG_LESSONS:
            rule = "Try the same once more"
        is_its_own = f"Playbook: {task.family.title}\n" in prompt
        answer = {
            "improvements": [] if success else [rule],
            "new_playbook": "" if is_its_own else task.family.title,
        }
        return Reply(message=Message(role="assistant", content=json.dumps(answer)))

    def _review(self) -> None:
        rules = {family.rule for family in self.families}
        for execution in self.library.waiting_reflections():
            learned = execution.reflection.improvements if execution.reflection else ()
            if self.setting.reviews and not rules.issuperset(learned):
                self.library.refuse_reflection(execution)
            else:
                self.library.accept_reflection(execution)


def _report(task: _Task, *, success: bool, followed: str) -> RunReport:
    output = f"Done. I followed [playbook:{followed}]." if followed else "Done."
    error = None if success else f"check failed: {task.family.rule}"
    node = NodeReport(
        name="work",
        type="agentic",
        status="success" if success else "failure",
        output=output,
        error=error,
    )
    return RunReport(
        run_id=task.run_id,
        blueprint="implement",
        intent=task.text,
        status="success" if success else "failure",
        nodes=(node,),
        failed_node=None if success else "work",
    )
