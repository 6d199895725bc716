"""The form that starts a run: titles, help, examples, choices and limits of its fields.

Prefect's UI draws it and its server refuses what does not fit. Order is the order of the
flow's parameters.
"""

from collections.abc import Callable
from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field, WithJsonSchema
from pydantic.config import JsonDict

from blueprints.types import Blueprint
from contracts.agents import AgentName
from flows.runs.request import LONGEST, MOST_USD
from memory.scope import ID_LIMIT

CONFIGURED: Final = "configured"
AgentChoice = Literal["configured", AgentName]
RunFunction = TypeVar("RunFunction", bound=Callable[..., object])


def _shown(title: str, description: str) -> JsonDict:
    """Words of one field. Prefect overwrites a `Field`'s own title, but not these."""
    return {"title": title, "description": description}


def _asked(title: str, description: str) -> JsonDict:
    """The same for a field that must be filled in; the flow itself tells what was not given."""
    return _shown(title, description) | {"minLength": 1}


Repo = Annotated[
    str,
    Field(
        max_length=LONGEST["repo"],
        json_schema_extra=_asked(
            "Repository",
            "Path or URL of the git repository to work on, such as /srv/git/my-project.",
        ),
    ),
]
Intent = Annotated[
    str,
    Field(
        max_length=LONGEST["intent"],
        json_schema_extra=_shown(
            "Intent", 'What you want, in your own words, such as "make the tests pass".'
        ),
    ),
]
IntentFrom = Annotated[
    str,
    Field(
        max_length=LONGEST["intent_from"],
        json_schema_extra=_shown(
            "Intent taken from",
            "Such as issue:17, where nobody vouches for the intent: nothing in it is taken for "
            "your word. Empty if you say it yourself.",
        ),
    ),
]
Ref = Annotated[
    str,
    Field(
        max_length=LONGEST["ref"],
        json_schema_extra=_shown(
            "Start from", "Branch, tag or commit; HEAD of the repository if empty."
        ),
    ),
]
Agent = Annotated[
    AgentChoice,
    Field(json_schema_extra=_shown("Agent", "Who does agentic nodes that name nobody.")),
]
Model = Annotated[
    str,
    Field(
        max_length=LONGEST["model"],
        json_schema_extra=_shown(
            "Model",
            "A litellm name such as anthropic/claude-sonnet-5-5, or scripted/FILE; "
            "the configured one if empty.",
        ),
    ),
]
Push = Annotated[
    bool,
    Field(json_schema_extra=_shown("Push", "Push the branch when every node succeeded.")),
]
Budget = Annotated[
    Annotated[float, Field(gt=0, le=MOST_USD)] | None,
    Field(
        json_schema_extra=_shown(
            "Budget in US dollars",
            "What the agents of this run may spend together; the configured limit if none.",
        ),
    ),
]
Options = Annotated[
    dict[str, str],
    Field(json_schema_extra=_shown("Options", "Options of the blueprint, name to value.")),
]
User = Annotated[
    str,
    Field(
        max_length=ID_LIMIT,
        json_schema_extra=_shown(
            "User", "Whose private notes and examples the agents are given; nobody's if empty."
        ),
    ),
]
Company = Annotated[
    str,
    Field(
        max_length=ID_LIMIT,
        json_schema_extra=_shown(
            "Company", "Whose company-wide notes and examples the agents are given."
        ),
    ),
]
Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*(KEY|TOKEN|SECRET|PASSWORD)$")]
"""Names that the redactor knows to blank out, and none that change how programs run."""
BlockName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,100}$")]
Secrets = Annotated[
    dict[Variable, BlockName],
    Field(
        json_schema_extra=_shown(
            "Secrets",
            'Variable to the name of a Secret block, such as {"OPENAI_API_KEY": "team-a-key"}. '
            "Never a secret itself: the server keeps what stands here.",
        ),
    ),
]
BlueprintRef = Annotated[
    str,
    Field(
        max_length=500,
        json_schema_extra=_asked(
            "Blueprint",
            "A name from `harness blueprints list`, or FILE:NAME where the operator's setting "
            "`allowed_blueprints` has it.",
        ),
    ),
]


def with_options_of(blueprint: Blueprint) -> Callable[[RunFunction], RunFunction]:
    """A decorator: the parameter `options` gets a field for each option of the blueprint."""
    schema = {
        "type": "object",
        "properties": {
            name: {"type": "string", "title": name, "description": _sentence(meaning)}
            for name, meaning in blueprint.options
        },
        "additionalProperties": False,
    }

    def give_fields(function: RunFunction) -> RunFunction:
        function.__annotations__["options"] = Annotated[
            dict[str, str],
            WithJsonSchema(schema),
            Field(json_schema_extra=_shown("Options", "Options of this blueprint.")),
        ]
        return function

    return give_fields


def _sentence(meaning: str) -> str:
    return f"{meaning[:1].upper()}{meaning[1:]}."
