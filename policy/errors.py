"""What can go wrong with plans and their log, hung below the tree in contracts/errors.py.

HarnessError
├── LinksTooMany                 exit 1   the links of a tree cannot all be followed
├── LogDamaged                   exit 1   the log lacks what it once had
├── NotKept                      exit 1   a step was done, but its files could not be kept
├── OperationFailed              exit 1   a step's operation could not do what it was to do
├── PersonAwaited                exit 1   a person has not answered yet
├── BadInput
│   ├── EntityNotFound           exit 2
│   └── EventsInvalid            exit 2   a file of events cannot be taken in
└── Unavailable
    └── LogUnavailable           exit 3   the log cannot be read or written
"""

from contracts.errors import BadInput, HarnessError, Unavailable


class TooManyLinks(HarnessError):
    """The symbolic links of a tree are more than may be followed in the time there is."""


class LogDamaged(HarnessError):
    """The log lacks events that it once had, or holds what was never appended."""


class ResultNotSaved(HarnessError):
    """An operation was done, but what it made could not be kept: no retry does it again."""


class OperationFailed(HarnessError):
    """An operation of a step could not do what it was to do."""


class EventsInvalid(BadInput):
    """A file that is no export of an event log, or not a whole one."""


class EntityNotFound(BadInput):
    """No entity in the log has this id."""


class LogUnavailable(Unavailable):
    """The event log cannot be read or written: what would happen now could not be told later."""


class WaitingForPerson(HarnessError):
    """A person has not answered yet; the step is done when they have."""
