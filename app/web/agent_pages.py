"""Agents: what each is given of the notebook, tried out before it is kept."""

from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.web.entry_forms import AgentForm, PreviewSettingsForm, ScopeForm
from app.web.errors import FORM_ERRORS, NO_FORM_ERROR, FormError, form_error
from app.web.pages import redirect, render_page
from app.web.raw_form import RawForm, unvalidated_form
from flows.recall.library import configured_notebook
from memory.errors import StaleUpdate
from memory.notes.agent_settings import ExampleStrategy, NoteStrategy, check_settings
from memory.notes.injection import Injection
from memory.notes.notebook import Notebook

router = APIRouter()


class PreviewForm(ScopeForm, frozen=True):
    """Whom and what a preview is for."""

    task: str = ""


@router.get("/agents")
def list_agents(request: Request) -> Response:
    """All agents and what each is given."""
    with configured_notebook() as opened:
        agents = [opened.agent_settings(name) for name in opened.agents]
    return render_page(request, "agents", {"agents": agents})


@router.get("/agents/{name}")
def show_agent(request: Request, name: str) -> Response:
    """The settings of one agent."""
    with configured_notebook() as opened:
        given = AgentForm.model_validate(opened.agent_settings(name), from_attributes=True)
    return _agent(request, name, given, asked=PreviewForm(agent=name))


@router.post("/agents/{name}/preview")
def preview_settings(request: Request, name: str, typed: RawForm) -> Response:
    """What the agent would be given with these settings; nothing is kept."""
    asked = PreviewForm.model_validate({**typed, "agent": name})
    with configured_notebook() as opened:
        opened.agent_settings(name)  # there is no page of one that nobody knows
        try:
            form = PreviewSettingsForm.model_validate(typed)
            check_settings(form.settings(name))
            shown = opened.inject(asked.scope(), form.task, options=form.injecting())
        except FORM_ERRORS as error:
            mine = unvalidated_form(AgentForm, typed)
            return _agent(request, name, mine, asked, refused=form_error(error))
    return _agent(request, name, form, asked=asked, shown=shown)


@router.post("/agents/{name}")
def change_agent(request: Request, name: str, typed: RawForm) -> Response:
    """Keep the settings; a person who was overtaken is told."""
    with configured_notebook() as opened:
        now = opened.agent_settings(name)
        try:
            opened.save_agent_settings(AgentForm.model_validate(typed).settings(name))
        except FORM_ERRORS as error:
            seen = {"version": str(now.version)} if isinstance(error, StaleUpdate) else {}
            mine = unvalidated_form(AgentForm, {**typed, **seen})
            asked = PreviewForm.model_validate({**typed, "agent": name})
            return _agent(request, name, mine, asked, refused=form_error(error))
    return redirect(request, f"/agents/{name}")


@router.get("/preview")
def preview(request: Request, asked: Annotated[PreviewForm, Query()]) -> Response:
    """What an agent would be given for a task, with its settings of now."""
    with configured_notebook() as opened:
        shown = _shown(opened, asked)
        values = {"asked": asked, "shown": shown, "agents": opened.agents}
    return render_page(request, "preview", values)


def _shown(opened: Notebook, asked: PreviewForm) -> Injection | None:
    if not asked.agent:
        return None
    return opened.inject(asked.scope(), asked.task)


def _agent(
    request: Request,
    name: str,
    given: AgentForm,
    asked: PreviewForm,
    *,
    shown: Injection | None = None,
    refused: FormError = NO_FORM_ERROR,
) -> Response:
    values = {
        "name": name,
        "given": given,
        "asked": asked,
        "shown": shown,
        "refused": refused.message,
        "note_strategies": get_args(NoteStrategy),
        "example_strategies": get_args(ExampleStrategy),
    }
    return render_page(request, "agent", values, status=refused.status)
