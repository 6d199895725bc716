"""Pages of agents: their settings for notes and examples, and a preview of the result."""

from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.web.entry_forms import AgentForm, PreviewSettingsForm, ScopeForm
from app.web.forms import (
    FORM_ERRORS,
    NO_FORM_ERROR,
    FormError,
    RawForm,
    form_error,
    unvalidated_form,
)
from app.web.pages import redirect, render_page
from flows.recall.library import configured_notebook
from memory.notes.agent_settings import ExampleStrategy, NoteStrategy, check_settings
from memory.notes.injection import Injection

router = APIRouter()


class PreviewForm(ScopeForm, frozen=True):
    """Agent, user, company and task of a preview."""

    task: str = ""


@router.get("/agents")
def list_agents(request: Request) -> Response:
    """Return the settings of all agents."""
    with configured_notebook() as book:
        agents = [book.agent_settings(name) for name in book.agents]
    return render_page(request, "agents", {"agents": agents})


@router.get("/agents/{name}")
def show_agent(request: Request, name: str) -> Response:
    """Return the settings of one agent."""
    with configured_notebook() as book:
        form = AgentForm.model_validate(book.agent_settings(name), from_attributes=True)
    return _agent(request, name, form, PreviewForm(agent=name))


@router.post("/agents/{name}/preview")
def preview_settings(request: Request, name: str, raw: RawForm) -> Response:
    """Return the notes and examples that the agent would get with these settings."""
    wanted = PreviewForm.model_validate({**raw, "agent": name})
    with configured_notebook() as book:
        book.agent_settings(name)  # 404 for an unknown agent
        try:
            form = PreviewSettingsForm.model_validate(raw)
            check_settings(form.settings(name))
            shown = book.inject(wanted.scope(), form.task, options=form.injecting())
        except FORM_ERRORS as error:
            typed = unvalidated_form(AgentForm, raw, error)
            return _agent(request, name, typed, wanted, refused=form_error(error))
    return _agent(request, name, form, wanted, shown=shown)


@router.post("/agents/{name}")
def change_agent(request: Request, name: str, raw: RawForm) -> Response:
    """Save the settings; after an error the form keeps the typed values."""
    with configured_notebook() as book:
        current = book.agent_settings(name)
        try:
            book.save_agent_settings(AgentForm.model_validate(raw).settings(name))
        except FORM_ERRORS as error:
            typed = unvalidated_form(AgentForm, raw, error, current.version)
            wanted = PreviewForm.model_validate({**raw, "agent": name})
            return _agent(request, name, typed, wanted, refused=form_error(error))
    return redirect(request, f"/agents/{name}")


@router.get("/preview")
def preview(request: Request, wanted: Annotated[PreviewForm, Query()]) -> Response:
    """Return the notes and examples that an agent would get with its current settings."""
    with configured_notebook() as book:
        shown = book.inject(wanted.scope(), wanted.task) if wanted.agent else None
        values = {"asked": wanted, "shown": shown, "agents": book.agents}
    return render_page(request, "preview", values)


def _agent(
    request: Request,
    name: str,
    form: AgentForm,
    wanted: PreviewForm,
    *,
    shown: Injection | None = None,
    refused: FormError = NO_FORM_ERROR,
) -> Response:
    values = {
        "name": name,
        "given": form,
        "asked": wanted,
        "shown": shown,
        "refused": refused.message,
        "note_strategies": get_args(NoteStrategy),
        "example_strategies": get_args(ExampleStrategy),
    }
    return render_page(request, "agent", values, status=refused.status)
