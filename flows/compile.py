"""A blueprint as a Prefect flow: each node, step and attempt is a task run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Literal

from prefect import Flow, State, allow_failure, flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.states import Completed, Failed
from pydantic import Field

from blueprints.engine import Perform, Watch
from blueprints.types import Blueprint
from contracts.run import NodeResult, RunReport
from flows.artifacts import publish_report
from flows.memory_tasks import memory_in_prefect
from flows.request import FlowRun, RunRequest
from flows.run import Workshop, run_blueprint
from flows.runs import read_diff
from nodes.types import Node

AgentName = Literal["native", "claude-code", "pi"]
RunFlow = Flow[..., State[RunReport]]

Budget = Annotated[float, Field(gt=0)]


def compile_blueprint(
    blueprint: Blueprint,
    workshop: Callable[[], Workshop],
    *,
    run_id: str | None = None,
    watch: Watch | None = None,
) -> RunFlow:
    """The flow that runs this blueprint, under the blueprint's name.

    It ends Completed or Failed with the `RunReport` as data; what a node raises is raised.
    `run_id=None` takes the last eight hex digits of the flow run's id. `workshop` is called
    when a run begins, not before.
    """

    def own_id() -> str:
        return run_id or str(flow_run.id)[-8:]

    def own_name() -> str:
        repo = str(flow_run.parameters["repo"]).rstrip("/").split("/")[-1]
        return f"{blueprint.name} · {repo} · {own_id()}"

    @flow(
        name=blueprint.name,
        description=blueprint.description,
        flow_run_name=own_name,
        persist_result=False,
    )
    def blueprint_flow(
        repo: str,
        intent: str = "",
        ref: str | None = None,
        agent: AgentName | None = None,
        model: str | None = None,
        push: bool = False,
        budget_usd: Budget | None = None,
        options: dict[str, str] = {},  # noqa: B006 - the form shows it; nobody changes it
    ) -> State[RunReport]:
        """Run the blueprint; Prefect's form shows what stands here.

        Args:
            repo: Path or URL of the git repository to work on.
            intent: What you want, in your own words.
            ref: Branch, tag or commit to start from; HEAD if empty.
            agent: Who does agentic nodes; the configured agent if empty.
            model: A litellm model name, or scripted/<file>; the configured model if empty.
            push: Push the branch when every node succeeded.
            budget_usd: US dollars that the agents may spend together.
            options: Options of the blueprint, name to value.
        """
        tools = workshop()
        tools = replace(tools, memory=memory_in_prefect(tools.memory))
        request = RunRequest(
            blueprint=blueprint,
            repo=repo,
            intent=intent,
            ref=ref,
            agent=agent or tools.default_agent,
            model=model or tools.default_model,
            push=push,
            budget_usd=budget_usd or tools.default_budget_usd,
            options=options,
        )
        tools.check(request)
        report = run_blueprint(
            request,
            tools,
            run_id=own_id(),
            flow_run=FlowRun(str(flow_run.id), str(flow_run.ui_url)),
            perform=task_runner(),
            watch=_logged(watch or Watch()),
        )
        publish_report(report, read_diff(tools.runs, report.run_id))
        return _end(report)

    return blueprint_flow


def task_runner() -> Perform:
    """A `Perform` that makes each node a task run; a failed node's task run is Failed.

    Each task run waits for the one before it, so that the graph shows their order.
    """
    last: State[object] | None = None

    def perform(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
        nonlocal last
        # No tags: each would cost a question to the server about its concurrency limits.
        run = _node_task.with_options(name=node.name, task_run_name=node.name)
        before = None if last is None else [allow_failure(last)]
        last = run(execute, return_state=True, wait_for=before)
        match last.result(raise_on_failure=False):
            case NodeResult() as result:
                return result
            case BaseException() as error:
                raise error
            case other:
                raise TypeError(f"node {node.name!r} gave {other!r}, which is no NodeResult")

    return perform


@task(cache_policy=NO_CACHE, persist_result=False)
def _node_task(execute: Callable[[], NodeResult]) -> object:
    result = execute()
    match result.status:
        case "success":
            return Completed(data=result)
        case "skipped":
            return Completed(name="Skipped", data=result)
        case "failure":
            return Failed(message=result.error, data=result)


def _logged(watch: Watch) -> Watch:
    """The same watch, also told to the Prefect log of the run that is going on."""

    def on_complete(name: str, result: NodeResult) -> None:
        why = f": {result.error}" if result.error else ""
        seconds = result.duration_ms / 1000
        get_run_logger().info("node %r: %s in %.1f s%s", name, result.status, seconds, why)
        watch.on_node_complete(name, result)

    def on_line(name: str, line: str) -> None:
        get_run_logger().info("%s", line)
        watch.on_line(name, line)

    return Watch(on_node_start=watch.on_node_start, on_node_complete=on_complete, on_line=on_line)


def _end(report: RunReport) -> State[RunReport]:
    if report.status == "success":
        where = f"work on {report.branch}" if report.branch else "nothing changed"
        return Completed(message=where, data=report)
    return Failed(message=report.error, data=report)
