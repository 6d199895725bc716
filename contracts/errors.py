"""The errors that Harness raises on purpose and that more than one room uses.

HarnessError                     exit 1
├── BadInput                     exit 2   the request is invalid
│   ├── ApprovalDecided
│   ├── ApprovalNotFound
│   ├── BlueprintInvalid
│   ├── BlueprintNotFound
│   ├── EnvironmentNotFound
│   ├── OperationInvalid
│   ├── OptionInvalid
│   ├── PlanInvalid
│   ├── RepoInvalid
│   ├── RunNotFound
│   │   └── RunDamaged
│   ├── RunNotReplayable
│   ├── RunNotResumable
│   ├── RunNotRunning
│   ├── SecretMissing
│   ├── SettingsInvalid
│   └── WebhookRefused
├── Unavailable                  exit 3   a service or a resource is not available
│   ├── DockerUnavailable
│   ├── HomeUnavailable
│   ├── ImageUnavailable
│   ├── McpUnavailable
│   ├── ModelUnavailable
│   │   ├── BudgetExceeded      exit 1   no further model call is allowed
│   │   └── ModelRefused
│   ├── PrefectUnavailable
│   └── SandboxLost
├── SandboxFileError             exit 1   a file in a sandbox could not be read or written
│   ├── SandboxFileMissing
│   ├── SandboxFileDenied
│   ├── SandboxNotAFile
│   └── SandboxFileTooLarge
├── NodeBroken                   exit 1   a node of the blueprint has a bug
├── Interrupted                  exit 130 Ctrl-C before the run had a report
├── NotificationFailed           exit 1   a notification could not be sent
├── ForgeRefused                 exit 1   a forge refused a request about a pull request
│   └── ForgeAway                         it does not answer now
├── GitFailed                    exit 1   a git command failed
└── WorkRefused                  exit 1   the output of a sandbox failed verification

Errors of one room are subclasses in `memory/errors.py` and `policy/errors.py`.
A failed command is no error: it is an `ExecResult` with its exit code.
"""


class HarnessError(Exception):
    """Base class. The message is one line for the user."""

    exit_code = 1


class BadInput(HarnessError):
    """The request is invalid; the user has to change it."""

    exit_code = 2


class ApprovalDecided(BadInput):
    """The approval is no longer pending; the message names its status."""


class ApprovalNotFound(BadInput):
    """No approval has this id, or more than one id begins with this prefix."""


class BlueprintInvalid(BadInput):
    """The blueprint breaks a rule that all blueprints must follow."""


class BlueprintNotFound(BadInput):
    """No blueprint matches this reference."""


class EnvironmentNotFound(BadInput):
    """No environment has this name."""


class OperationInvalid(BadInput):
    """A plan operation lacks a declaration that the policy needs."""


class OptionInvalid(BadInput):
    """A run option is unknown, or its value is invalid."""


class PlanInvalid(BadInput):
    """A plan is malformed, or has unknown operations or dangling references."""


class RepoInvalid(BadInput):
    """A run cannot start from this repository or this ref."""


class RunNotFound(BadInput):
    """No run is recorded under this id."""


class RunDamaged(RunNotFound):
    """The files of a run cannot be read."""


class RunNotResumable(BadInput):
    """The run cannot be resumed: it is running, it has finished, or its state is missing."""


class RunNotRunning(BadInput):
    """The run cannot be cancelled because it is not running."""


class SecretMissing(BadInput):
    """No secret is stored under the name that the run request gives."""


class RunNotReplayable(BadInput):
    """The run cannot be replayed because its inputs are missing or were never recorded."""


class SettingsInvalid(BadInput):
    """`harness.toml` or a HARNESS_ variable has an invalid value."""


class WebhookRefused(BadInput):
    """The signature of a webhook is wrong, or the same delivery was accepted before."""


class Unavailable(HarnessError):
    """A service or a resource that a run needs is not available."""

    exit_code = 3


class DockerUnavailable(Unavailable):
    """No Docker engine answers."""


class HomeUnavailable(Unavailable):
    """`HARNESS_HOME` cannot be written: disk full, no permission, or no such disk."""


class ImageUnavailable(Unavailable):
    """The sandbox image does not exist locally and cannot be pulled or built."""


class McpUnavailable(Unavailable):
    """An MCP server does not start, or does not answer."""


class ModelUnavailable(Unavailable):
    """The model cannot be called: no key, no such model, or no answer."""


class ModelRefused(ModelUnavailable):
    """The model rejects this request; another request may succeed."""


class BudgetExceeded(ModelUnavailable):
    """The budget or the turns are used up. Agents return a failure instead of raising it."""

    exit_code = 1


class PrefectUnavailable(Unavailable):
    """No Prefect server answers, and none could be started."""


class SandboxLost(Unavailable):
    """The sandbox no longer exists or cannot start processes. A failed command never raises it."""


class SandboxFileError(HarnessError):
    """A file in a sandbox could not be read or written."""


class SandboxFileMissing(SandboxFileError):
    """No file exists at this path."""


class SandboxFileDenied(SandboxFileError):
    """The sandbox user may not read or write this path."""


class SandboxNotAFile(SandboxFileError):
    """The path is not a regular file: a directory, a link out of the sandbox, a FIFO, a device."""


class SandboxFileTooLarge(SandboxFileError):
    """The file is larger than the caller's limit."""


class NodeBroken(HarnessError):
    """A node raised an exception, tried to exit the process, or returned no `NodeResult`."""


class Interrupted(HarnessError):
    """The user pressed Ctrl-C before the run had a report."""

    exit_code = 130


class NotificationFailed(HarnessError):
    """A notification block does not exist, or could not send."""


class ForgeRefused(HarnessError):
    """A forge (GitHub, GitLab …) refused a request, such as to open a pull request."""


class ForgeAway(ForgeRefused):
    """The forge does not answer, or allows no more requests for a while."""


class GitFailed(HarnessError):
    """A git command failed, on the host or in a sandbox. The message ends with git's own error."""


class WorkRefused(HarnessError):
    """The commits that came out of a sandbox are corrupt or not the expected ones."""
