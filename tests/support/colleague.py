"""A second process at the same notebook: does one thing for each line of stdin, then tells it."""

import sys
from dataclasses import replace
from pathlib import Path

from contracts.agents import AGENTS
from memory.notes.notebook import Notebook, open_notebook
from memory.notes.types import NoteContent
from memory.scope import Scope
from tests.support.memory import WordEmbedder

ME = Scope(agent="native", user="ann", company="acme")
TASK = "tidy the code"


def given(book: Notebook) -> str:
    """What is injected now, as one line."""
    return "; ".join(note.text for note in book.inject(ME, TASK).notes)


def do(book: Notebook, what: str, words: str) -> str:
    """Carry out one order; a note is named by its text."""
    notes = {note.text: note for note in book.list("note")}
    match what:
        case "add":
            book.add(NoteContent(text=words))
        case "well":
            book.edit(replace(notes[words], text=f"{words} well"))
        case "hide":
            book.edit(replace(notes[words], scope=Scope(user="bob")))
        case "revoke":
            book.revoke(notes[words].id)
        case "approve":
            book.approve(notes[words].id)
        case "remove":
            book.remove(notes[words].id)
        case "turn":
            book.save_agent_settings(
                replace(book.agent_settings("native"), inject_notes=words == "on")
            )
    return given(book)


def work(where: str) -> None:
    """Until stdin ends."""
    database = where if "://" in where else Path(where)
    with open_notebook(database, agents=AGENTS, embedder=WordEmbedder().embedder) as book:
        for line in sys.stdin:
            what, _, words = line.strip().partition(" ")
            sys.stdout.write(f"{do(book, what, words)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    work(sys.argv[1])
