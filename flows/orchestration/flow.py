"""What flows share: the form of a request, required parameters, expected errors, secrets."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from hashlib import sha256
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Final, ParamSpec, TypeVar, cast

from prefect import Flow, State
from prefect.blocks.system import Secret
from prefect.runtime import flow_run
from prefect.states import Failed
from prefect.utilities.callables import parameter_schema
from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from blueprints.types import Blueprint
from contracts.errors import HarnessError, OptionInvalid, SecretMissing
from flows.config.environment import set_variables
from flows.config.settings import load_settings
from flows.runs.request import CONFIGURED, RunRequest
from flows.services import gateway
from nodes.agents.table import agent_rows

Params = ParamSpec("Params")
Report = TypeVar("Report")
AnyFlow = TypeVar("AnyFlow", bound=Flow[..., Any])

NOT_GIVEN: Final = ""
"""Default of a parameter that `required_parameters` names."""


def required_parameters(*names: str) -> Callable[[AnyFlow], AnyFlow]:
    """Mark parameters that have defaults as required in the flow's form.

    A schedule can omit a parameter that the form requires. Without a default, Prefect would crash
    the run before our code starts; `check_required` refuses it with one line instead.
    """

    def require(flow: AnyFlow) -> AnyFlow:
        found = signature(flow.fn, eval_str=True)
        required = [
            one.replace(default=Parameter.empty) if one.name in names else one
            for one in found.parameters.values()
        ]
        vars(flow)["__signature__"] = found.replace(
            parameters=required
        )  # Prefect builds the form from it
        flow.parameters = parameter_schema(flow)
        return flow

    return require


def check_required(given: Mapping[str, str]) -> None:
    """Refuse a run that was started without a required parameter.

    Raises:
        OptionInvalid: names the first missing parameter and where to set it.
    """
    for name, value in given.items():
        if value == NOT_GIVEN:
            raise OptionInvalid(
                f"no `{name}` was given: write it in the form, in the parameters of the schedule, "
                "or in the deployment's defaults"
            )


def expected_errors(run: Callable[Params, State[Report]]) -> Callable[Params, State[Report]]:
    """Turn a `HarnessError` into a Failed state with its one-line message.

    Any other exception is a bug or an outage and keeps its traceback.
    """

    @wraps(run)
    def wrapped(*args: Params.args, **kwargs: Params.kwargs) -> State[Report]:
        try:
            return run(*args, **kwargs)
        except HarnessError as error:
            return Failed(message=str(error), data=error)

    return wrapped


def unless_typed(name: str) -> str:
    """Return the current flow run's name if a person typed it, else this name.

    Prefect gives a run that nobody named two words of its generator, such as `brave-otter`.
    """
    from coolname.data import config

    given = flow_run.name or ""
    # Its types say `object`.
    tables = cast("Mapping[str, Mapping[str, Sequence[str]]]", config)
    known = {word for table in tables.values() for word in table.get("words", ())}
    return name if known.issuperset(given.split("-")) or not given else given


RunFunction = TypeVar("RunFunction", bound=Callable[..., object])

_NOT_ON_A_FORM = frozenset({"wait_approvals_s"})
"""A flow run suspends while it waits for a person, so it needs no time limit for that."""


def request_form(
    blueprint: Blueprint | None = None,
    *,
    model: type[BaseModel] = RunRequest,
    without: Collection[str] = (),
) -> Callable[[RunFunction], RunFunction]:
    """Give a function that takes `**fields` the fields of a request as its parameters.

    With a blueprint, the field "options" lists the options of the blueprint.
    """

    def give_parameters(function: RunFunction) -> RunFunction:
        parameters = [
            _parameter(name, field, blueprint)
            for name, field in model.model_fields.items()
            if name not in {*_NOT_ON_A_FORM, *without}
        ]
        returns = function.__annotations__.get("return", Parameter.empty)
        vars(function)["__signature__"] = Signature(parameters, return_annotation=returns)
        return function

    return give_parameters


def _parameter(name: str, field: FieldInfo, blueprint: Blueprint | None) -> Parameter:
    # Prefect overwrites a field's title and description, but not those in json_schema_extra.
    shown: JsonDict = {"title": field.title or name, "description": field.description or ""}
    if field.is_required():
        default: object = NOT_GIVEN
        shown["minLength"] = 1  # in the form only; `check_required` has a better message
    else:
        default = field.get_default(call_default_factory=True)
    kind: object = field.annotation
    if name == "options" and blueprint is not None:
        kind = Annotated[kind, WithJsonSchema(_options_schema(blueprint))]
    if name == "agent":
        listed: JsonDict = {"type": "string", "enum": [CONFIGURED, *agent_rows()]}
        kind = Annotated[kind, WithJsonSchema(listed), AfterValidator(_known_agent)]
    for limit in field.metadata:
        kind = Annotated[kind, limit]
    kind = Annotated[kind, Field(json_schema_extra=shown)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _known_agent(name: str) -> str:
    load_settings()  # which may name agents
    if name not in (CONFIGURED, *agent_rows()):
        raise ValueError(f"there is no agent {name!r}")
    return name


def _options_schema(blueprint: Blueprint) -> JsonDict:
    return {
        "type": "object",
        "properties": {
            name: {
                "type": "string",
                "title": name,
                "description": f"{meaning[:1].upper()}{meaning[1:]}.",
            }
            for name, meaning in blueprint.options.items()
        },
        "additionalProperties": False,
    }


@contextmanager
def secret_variables(blocks: Mapping[str, str]) -> Iterator[None]:
    """Set each environment variable to the value of its Secret block during the block of code.

    Raises:
        SecretMissing: this server has no such block, or its value is not text.
    """
    if not blocks:
        yield
        return
    own_gateway = f"gateway-{sha256(repr(sorted(blocks.items())).encode()).hexdigest()[:8]}"
    secret = {name: _read_secret(block) for name, block in blocks.items()}
    # A gateway of its own: the keys of one run must not serve other runs.
    with set_variables({**secret, "HARNESS_GATEWAY": own_gateway}):
        try:
            yield
        finally:
            gateway.down_if_idle(load_settings())


def _read_secret(block: str) -> str:
    # Typed as a coroutine function; with `_sync` it returns the value.
    load = cast("Callable[..., Secret[str]]", Secret.load)
    try:
        secret = load(block, _sync=True)
    except ValueError as error:
        raise SecretMissing(
            f"no Secret block {block!r} on this Prefect server: "
            "create it under Blocks, or name another one in the run's secrets"
        ) from error
    value = secret.value.get_secret_value()
    read = secret.get()  # parses a text that is JSON
    for text in (read, value):
        if isinstance(text, str):
            return text
    raise SecretMissing(
        f"Secret block {block!r} holds a {type(value).__name__}, and a variable takes text: "
        "write it under Blocks as text, or name another one in the run's secrets"
    )
