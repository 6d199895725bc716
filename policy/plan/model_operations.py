"""Operations by a model that is kept apart: it sees data, has no tools, and decides nothing."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from contracts.chat import ChatRequest, Complete, Message
from contracts.json import Json, parse_json
from policy.errors import OperationFailed
from policy.plan.registry import Operation, operation
from policy.plan.workspace_operations import to_text
from policy.templates import render_prompt

_CHARS = 200_000
_MAX_TOKENS = 4_000


def model_operations(complete: Complete, model: str) -> tuple[Operation, ...]:
    """The operations, by this model. What it writes is tainted by all that it saw."""

    isolated = _IsolatedModel(complete, model)

    @operation(effect="read", requires=["ASK_MODEL"])
    def summarise(
        text: Annotated[object, "content"], question: Annotated[str, "query"] = ""
    ) -> Json:
        """Say a text shorter, or answer a question from it."""
        return isolated.ask("summarise.md.j2", text=text, wanted=question)

    @operation(effect="read", requires=["ASK_MODEL"])
    def extract(text: Annotated[object, "content"], fields: Annotated[list[str], "query"]) -> Json:
        """Take these fields out of a text; gives an object of texts, empty where nothing is."""
        said = isolated.ask("extract.md.j2", text=text, wanted=fields, schema=_schema(fields))
        return _fields(said, fields, model)

    return (summarise, extract)


class _IsolatedModel(NamedTuple):
    """A model that is kept apart."""

    complete: Complete
    name: str

    def ask(self, template: str, *, text: object, wanted: object, schema: Json = None) -> str:
        prompt = render_prompt(template, text=to_text(text)[:_CHARS], wanted=wanted)
        request = ChatRequest(
            model=self.name,
            messages=[Message(role="user", content=prompt)],
            max_tokens=_MAX_TOKENS,
            response_schema=schema if isinstance(schema, Mapping) else None,
        )
        said = self.complete(request).message
        if said.tool_calls or not said.content.strip():
            raise OperationFailed(f"{self.name} gave no text")
        return said.content


def _schema(fields: Sequence[str]) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in fields},
        "required": list(fields),
        "additionalProperties": False,
    }


def _fields(said: str, fields: Sequence[str], model: str) -> Json:
    try:
        found = parse_json(said)
    except ValueError as error:
        raise OperationFailed(f"{model} gave no JSON: {error}") from error
    if not isinstance(found, dict):
        raise OperationFailed(f"{model} gave no object")
    return {name: to_text(found.get(name, "")) for name in fields}
