"""What people think of a run."""

from flows.library import notebook
from flows.runs import find_run
from flows.settings import load_settings
from memory.rating import Rating


def rate_run(run: str, score: int, *, by: str = "") -> Rating:
    """Keep a rating of a run, by its id or the beginning of it; from 0 to 100.

    Raises:
        RunNotFound: no such run, or several.
        NoteInvalid: the score is out of range.
    """
    found = find_run(load_settings().runs, run)
    with notebook() as book:
        return book.rate(found.name, score, by=by)
