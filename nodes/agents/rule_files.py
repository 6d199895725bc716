"""What a repository tells agents in rule files such as `AGENTS.md`, and its skills.

The files are those of the base commit, so no agent writes rules for the next one; what the agents'
programs would read by themselves is switched off. They guide the work; they permit nothing.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from contracts.json import as_mapping
from nodes.projects.types import ProjectFiles
from nodes.text import one_line, truncate_middle

MAX_WHOLE = 24_000
"""Characters of the rule files that are shown whole: some 6,000 tokens."""
MAX_LISTED = 50
"""Rule files and skills that are listed, of each."""
_MAX_FIELD = 300

_OF_FOLDER = ("AGENTS.md", "CLAUDE.md")
"""Files that hold for their folder and everything below it."""
_KINDS = (
    ("AGENTS.md", ""),
    ("*/AGENTS.md", ""),
    ("CLAUDE.md", ""),
    ("*/CLAUDE.md", ""),
    (".github/copilot-instructions.md", ""),
    (".github/instructions/*.md", "applyTo"),
    (".cursor/rules/*.mdc", "globs"),
    ("*/SKILL.md", ""),
)
"""Patterns of paths, and the field of the front matter that says which files the rules are for."""
_HIDDEN = (".github/", ".cursor/", ".claude/skills/", ".agents/skills/")
"""Hidden folders that hold such files."""

_BARE_GLOB = re.compile(r"(?m)^(\w+: +)(\*[^'\"\n]*)$")
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    autoescape=select_autoescape(),  # escapes HTML templates only; a prompt is plain text
)


class RuleFile(NamedTuple):
    """One file: shown whole, listed as rules for some files, or listed as a skill."""

    path: str
    use: Literal["whole", "rules", "skill"]
    text: str
    about: str
    """Files that the rules are for, or what a skill is for."""


class Rules(NamedTuple):
    """The text for the prompt, empty if there are no rules, and the paths of the files."""

    text: str = ""
    paths: tuple[str, ...] = ()


def find_rules(files: ProjectFiles) -> Rules:
    """Return what the rule files of a commit tell an agent.

    Rules for the whole repository are shown whole, those for some of its files and skills are
    listed: the agent reads them when they fit its work.
    """
    found = list(_found(files))
    whole = _without_doubles(one for one in found if one.use == "whole")
    rules = [one for one in found if one.use == "rules"]
    skills = [one for one in found if one.use == "skill"]
    if not found:
        return Rules()
    share = MAX_WHOLE // max(1, len(whole))
    text = _TEMPLATES.get_template("rule_files.md.j2").render(
        whole=[one._replace(text=truncate_middle(one.text.strip(), share)) for one in whole],
        rules=rules[:MAX_LISTED],
        skills=skills[:MAX_LISTED],
    )
    shown = (*whole, *rules[:MAX_LISTED], *skills[:MAX_LISTED])
    return Rules(text.strip(), tuple(one.path for one in shown))


def _found(files: ProjectFiles) -> Iterator[RuleFile]:
    paths = (path for path in files.paths if path in files.own or path.startswith(_HIDDEN))
    for path in sorted(paths, key=lambda path: (path.count("/"), path)):
        kind = next((kind for kind in _KINDS if fnmatchcase(path, kind[0])), None)
        if kind is not None:
            yield _rule_file(path, files.text(path), scope=kind[1])


def _rule_file(path: str, text: str, *, scope: str) -> RuleFile:
    where, name = PurePosixPath(path).parent, PurePosixPath(path).name
    head = _front_matter(text)
    if name == "SKILL.md":
        about = f"{head.get('name') or where.name}: {head.get('description') or ''}"
        return RuleFile(path, "skill", "", one_line(about, _MAX_FIELD))
    if name in _OF_FOLDER:
        is_root = str(where) == "."
        return RuleFile(path, "whole" if is_root else "rules", text, f"files below {where}/")
    globs = head.get(scope)
    wanted = ", ".join(map(str, globs)) if isinstance(globs, list) else str(globs or "")
    for_all = head.get("alwaysApply") is True or wanted in ("**", "**/*")
    if not scope or for_all:
        return RuleFile(path, "whole", text, "")
    about = wanted or str(head.get("description") or "what its name says")
    return RuleFile(path, "rules", "", one_line(about, _MAX_FIELD))


def _without_doubles(files: Iterator[RuleFile]) -> list[RuleFile]:
    """Leave out files with the same text: `CLAUDE.md` is often a copy of `AGENTS.md`."""
    by_text: dict[str, RuleFile] = {}
    for one in files:
        by_text.setdefault(one.text.strip(), one)
    return [one for text, one in by_text.items() if text]


def _front_matter(text: str) -> Mapping[str, object]:
    if not text.startswith("---\n"):
        return {}
    try:
        # A glob that begins with `*` would be an alias in YAML; editors write it unquoted.
        return as_mapping(yaml.safe_load(_BARE_GLOB.sub(r"\1'\2'", text[4:].partition("\n---")[0])))
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
