"""Asks a model what a run teaches."""

import json
import logging
from collections.abc import Sequence

from pydantic import ValidationError

from contracts.chat import ChatRequest, Complete, Message
from memory.curation.proposals import MAX_PROPOSALS_PER_RUN, CurationFindings, RunTranscript
from memory.templates import render_template

MAX_ATTEMPTS = 3
"""Answers that a model is asked for before its findings are dropped."""

_log = logging.getLogger(__name__)


def ask_curator(
    complete: Complete, model: str, story: RunTranscript, known: Sequence[str]
) -> CurationFindings | None:
    """What the model found; None, and a line in the log, when it never answers as asked.

    Raises:
        ModelUnavailable: it does not answer at all.
    """
    messages = [Message(role="user", content=curation_prompt(story, known))]
    fault = ""
    for _ in range(MAX_ATTEMPTS):
        reply = complete(ChatRequest(model=model, messages=messages)).message
        try:
            return _parse(reply.content)
        except (ValueError, RecursionError) as error:
            fault = _fault(error)
        messages += [
            Message(role="assistant", content=reply.content or "(nothing)"),
            Message(
                role="user", content=f"That does not fit: {fault}. The schema is:\n{_schema()}"
            ),
        ]
    _log.warning("what model %s found in run %s is dropped: %s", model, story.run_id, fault)
    return None


def curation_prompt(story: RunTranscript, known: Sequence[str]) -> str:
    """The whole question, the same for the same run and notes."""
    return render_template(
        "curate.md.j2", story=story, known=known, most=MAX_PROPOSALS_PER_RUN, schema=_schema()
    )


def _parse(text: str) -> CurationFindings:
    start, end = text.find("{"), text.rfind("}")
    return CurationFindings.model_validate(json.loads(text[start : end + 1]))


def _fault(error: ValueError | RecursionError) -> str:
    match error:
        case json.JSONDecodeError():
            return f"it is no JSON ({error.msg} at character {error.pos})"
        case ValidationError():
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            return f"{place or 'the object'}: {first['msg']}"
        case _:  # nested too deep, or a number too long to be read
            return f"it cannot be read ({error})"


def _schema() -> str:
    return json.dumps(CurationFindings.model_json_schema())
