"""The errors that Harness raises on purpose, as far as more than one room knows them.

HarnessError                     exit 1
├── BadInput                     exit 2   the caller asked for something that cannot be
│   ├── ApprovalDecided
│   ├── ApprovalNotFound
│   ├── BlueprintInvalid
│   ├── BlueprintNotFound
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
├── Unavailable                  exit 3   something needed does not answer
│   ├── DockerUnavailable
│   ├── HomeUnavailable
│   ├── ImageUnavailable
│   ├── ModelUnavailable
│   │   ├── BudgetExceeded      exit 1   it may not be called any more
│   │   └── ModelRefused
│   ├── PrefectUnavailable
│   └── SandboxLost
├── SandboxFileError             exit 1   one file in a sandbox could not be read or written
│   ├── SandboxFileMissing
│   ├── SandboxFileDenied
│   ├── SandboxNotAFile
│   └── SandboxFileTooLarge
├── NodeBroken                   exit 1   a node of the blueprint must be mended
├── Interrupted                  exit 130 before there was anything to report
├── ForgeRefused                 exit 1   a pull request could not be opened
├── GitFailed                    exit 1   a git command failed
└── WorkRefused                  exit 1   what came out of a sandbox failed verification

Those of one room hang below these: `memory/errors.py`, `policy/errors.py`.
A command that fails is not here: that is an `ExecResult` with its exit code.
"""


class HarnessError(Exception):
    """An error whose message is written for the person who runs Harness."""

    exit_code = 1


class BadInput(HarnessError):
    """The caller asked for something that cannot be done as asked."""

    exit_code = 2


class ApprovalDecided(BadInput):
    """This approval does not wait any more; the message says what became of it."""


class ApprovalNotFound(BadInput):
    """There never was an approval of this id, or more than one begins like that."""


class BlueprintInvalid(BadInput):
    """A blueprint breaks one of the rules every blueprint keeps."""


class BlueprintNotFound(BadInput):
    """No blueprint answers to this reference."""


class OperationInvalid(BadInput):
    """An operation does not say what the policy must know of it."""


class OptionInvalid(BadInput):
    """A run option is unknown, or its value cannot be used."""


class PlanInvalid(BadInput):
    """A plan is no plan: malformed, unknown operations, or references that lead nowhere."""


class RepoInvalid(BadInput):
    """The repository or the ref is not one a run can start from."""


class RunNotFound(BadInput):
    """No run is recorded under this id."""


class RunDamaged(RunNotFound):
    """What was recorded of a run cannot be read any more."""


class RunNotResumable(BadInput):
    """The run cannot go on: it is running or finished, or what it needs for that is gone."""


class RunNotRunning(BadInput):
    """The run cannot be cancelled: it is not running."""


class SecretMissing(BadInput):
    """A secret that a run was promised is not kept under the name it was given."""


class RunNotReplayable(BadInput):
    """What the run was done with is gone or was never noted, so it cannot be done again."""


class SettingsInvalid(BadInput):
    """`harness.toml` or a HARNESS_ variable holds a value that cannot be used."""


class WebhookRefused(BadInput):
    """A webhook is not signed by who should have sent it, or was taken before."""


class Unavailable(HarnessError):
    """Something outside that a run needs does not answer."""

    exit_code = 3


class DockerUnavailable(Unavailable):
    """No Docker engine answers."""


class HomeUnavailable(Unavailable):
    """What must be kept of a run cannot be written: no room, no permission, no disk."""


class ImageUnavailable(Unavailable):
    """The image a sandbox starts from is neither here nor to be had."""


class ModelUnavailable(Unavailable):
    """The model cannot be called: no key, no such model, or no answer."""


class ModelRefused(ModelUnavailable):
    """The model does not take this request; it may well take another."""


class BudgetExceeded(ModelUnavailable):
    """The money or the turns are spent; the message says what was. No agent raises it."""

    exit_code = 1


class PrefectUnavailable(Unavailable):
    """No Prefect server answers, and none could be started."""


class SandboxLost(Unavailable):
    """The sandbox is gone or can no longer start a process; never a failed command."""


class SandboxFileError(HarnessError):
    """One file in a sandbox could not be read or written."""


class SandboxFileMissing(SandboxFileError):
    """No file at this path."""


class SandboxFileDenied(SandboxFileError):
    """The sandbox user may not read or write this path."""


class SandboxNotAFile(SandboxFileError):
    """The path is a directory, a link out, a FIFO or a device: not a regular file."""


class SandboxFileTooLarge(SandboxFileError):
    """The file is larger than the limit that the caller gave."""


class NodeBroken(HarnessError):
    """A node raised, wanted to end the process, or gave no result: its author has to mend it."""


class Interrupted(HarnessError):
    """Somebody pressed Ctrl-C before there was anything to report."""

    exit_code = 130


class ForgeRefused(HarnessError):
    """A forge did not answer, or would not open a pull request."""


class GitFailed(HarnessError):
    """A git command failed, on the host or in a sandbox; the message ends with git's last words."""


class WorkRefused(HarnessError):
    """What came out of a sandbox is corrupt or is not what it claims to be."""
