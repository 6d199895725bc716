"""mini-swe-agent at the tasks: run by a Python of its own, beside `tasks.py`.

Prints the seconds from each reply to the next request, as JSON.
"""

import json
import sys
import time
from importlib import import_module

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
IMAGE = sys.argv[1]

# By name: none of this is in the environment that is type-checked.
agents = import_module("minisweagent.agents.default")
environments = import_module("minisweagent.environments.docker")
models = import_module("minisweagent.models.test_models")
import_module("minisweagent.models.litellm_model")  # what a real model would be called by
tasks = import_module("tasks")

steps: list[float] = []


class Scripted(models.DeterministicModel):  # type: ignore[name-defined, misc]  # known at run time
    """Its own test model, with a clock."""

    replied = 0.0

    def query(self, messages: list[dict[str, str]], **more: object) -> object:
        if self.replied:
            steps.append(time.perf_counter() - self.replied)
        answer = super().query(messages, **more)
        self.replied = time.perf_counter()
        return answer


def run(number: int) -> None:
    said = [*tasks.commands(number), SUBMIT]
    outputs = [
        {"role": "assistant", "content": line, "extra": {"actions": [{"command": line}]}}
        for line in said
    ]
    environment = environments.DockerEnvironment(
        image=IMAGE, cwd="/workspace", run_args=["--rm", "--network", "none"]
    )
    environment.execute({"command": tasks.SET_UP})
    agent = agents.DefaultAgent(
        Scripted(outputs=outputs, cost_per_call=0.0),
        environment,
        system_template="You fix bugs.",
        instance_template="{{task}}",
    )
    assert agent.run("Fix it.")["exit_status"] == "Submitted"
    environment.cleanup()


for number in range(tasks.COUNT):
    run(number)
print(json.dumps(steps))
