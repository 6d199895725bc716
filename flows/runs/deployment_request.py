"""A deployment that a user makes of a blueprint: a run request, a name and a schedule.

One model serves `harness deploy` and the tables `[deployments.NAME]` of the settings.
"""

import re
from datetime import timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from contracts.errors import BadInput
from flows.runs.request import RunRequest
from sandbox.redaction import redact_url

_NAME = re.compile(r"[^/\s](?:[^/\n]{0,98}[^/\s])?")
_CREDENTIALS = re.compile(r"https?://[^/\s]+@")
_SHORTEST = timedelta(minutes=1)


class DeploymentRequest(RunRequest):
    """A run request that a Prefect server keeps, and starts on schedule.

    At most one of `cron` and `interval_s` is given; without either, nothing starts it by itself.
    """

    name: str = Field(
        description="Name of the deployment; a deployment of this name is replaced.",
    )
    cron: str = Field(
        default="", max_length=200, description='When to run, such as "30 3 * * 1-5".'
    )
    interval_s: float | None = Field(
        default=None,
        ge=_SHORTEST.total_seconds(),
        le=timedelta(days=366).total_seconds(),
        description="Seconds from one run to the next.",
    )
    timezone: str = Field(
        default="UTC", max_length=100, description="Time zone of the cron, such as Europe/Berlin."
    )

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters of each run, for the form of `run-blueprint`."""
        given = self.model_dump(mode="json", exclude_defaults=True)
        return {key: given[key] for key in given if key not in _NOT_OF_A_RUN}

    def check(self) -> None:
        """Check what the types of the fields cannot.

        Raises:
            BadInput: the name, the schedule or the time zone cannot be used, or the repository's
                address holds a password or token.
        """
        if not _NAME.fullmatch(self.name):
            raise BadInput(
                f"a deployment's name has 1 to 100 characters and no '/', not {self.name[:100]!r}"
            )
        if self.cron and self.interval_s is not None:
            raise BadInput("a deployment has one schedule: a cron or an interval, not both")
        if _CREDENTIALS.match(self.repo):
            raise BadInput(
                f"the address {redact_url(self.repo)} holds a password, which Prefect would store "
                "and show: leave it out, git asks its credential helper on the worker's machine"
            )
        if self.wait_approvals_s is not None:
            raise BadInput("a run of a deployment waits suspended for approvals, without a limit")
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise BadInput(
                f"no time zone {self.timezone!r}: wanted is a name such as Europe/Berlin"
            ) from None


_NOT_OF_A_RUN = (DeploymentRequest.model_fields.keys() - RunRequest.model_fields.keys()) | {
    "wait_approvals_s"
}
