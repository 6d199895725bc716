"""Models as settings and blueprints name them: one text, or a list in order of preference."""

from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from contracts.chat import joined_models


def _joined(value: object) -> object:
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return joined_models(value)
    return value


ModelNames = Annotated[
    str,
    BeforeValidator(_joined),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]
"""Names with commas between them; a list of names becomes that."""
