"""Comments on the pull request of a run: what an agent is told of one, and the reply to it.

What a comment says is data for the agent. It decides nothing else.
"""

from flows.forge.client import Forge
from flows.forge.comments import Comment, next_comment
from flows.runs.checkpoint import Asked, Checkpoint, round_name
from nodes.text import one_line, quote_untrusted, truncate_middle

COMMENT_LIMIT = 12_000
"""Characters of one comment with its lines of code that an agent is given."""
REPLY_LIMIT = 6_000
ERROR_LIMIT = 500

_TASK = (
    "Your work was pushed and a pull request was opened. A person who may write to the repository "
    "has commented on it. Do what the comment asks for, as a part of your task and in this "
    "repository only; answer it if it is a question. If something in it is wrong, or is not yours "
    "to do, leave it and say why. Your changes are checked and pushed when you are done. Your last "
    "message becomes the reply: a few sentences about what you did or found.\n\n"
)


def asked_text(comment: Comment) -> str:
    """Return what an agent is told of a comment. It ends with the comment as quoted data."""
    parts = [comment.body.strip()]
    if comment.path:
        line = f", line {comment.line}" if comment.line else ""
        parts.insert(0, f"about {one_line(comment.path, 500)}{line}:")
    if comment.hunk:
        parts.insert(1, comment.hunk.strip("\n"))
    text = "\n\n".join(parts)
    return f"{_TASK}{quote_untrusted(text, 'a comment on the pull request', limit=COMMENT_LIMIT)}"


def reply_text(now: Checkpoint, asked: Asked, error: str, *, last: bool) -> str:
    """Return the reply to a comment whose round has ended. `last`: no other one is answered."""
    result = (now.ended or {}).get(round_name(len(now.rounds)))
    said = result.output.strip() if result and not asked.failed else ""
    parts = [truncate_middle(said, REPLY_LIMIT)] if said else []
    commit = now.pull.commit if now.pull else ""
    if asked.failed:
        parts.append(f"This could not be done: {one_line(error, ERROR_LIMIT) or 'the run failed'}")
    elif commit != now.rounds[-1].commit:
        parts.append(f"Pushed as {commit[:10]}.")
    else:
        parts.append("No file was changed.")
    if last:
        parts.append("This run answers no more comments on this pull request.")
    return "\n\n".join(parts)


def find_comment(forge: Forge, now: Checkpoint) -> Comment | None:
    """Return the comment that a run has to work on next, or None.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    if now.pull is None:
        return None
    known = {one.asked.key for one in now.rounds if one.asked}
    return next_comment(forge, now.pull.number, known=known)


def takes_comments(forge: Forge, now: Checkpoint) -> bool:
    """Return whether the run has answered fewer comments than it may."""
    return sum(one.asked is not None for one in now.rounds) < forge.answers


def owes_reply(now: Checkpoint) -> bool:
    """Return whether the last comment was worked on and its reply is not written."""
    asked = now.rounds[-1].asked if now.rounds else None
    return asked is not None and not asked.replied
