"""Errors of plans and of the event log, below the tree in contracts/errors.py.

HarnessError
├── LogDamaged                   exit 1   the log lacks events or holds edited ones
├── OperationFailed              exit 1   the operation of a step failed
├── ResultNotSaved               exit 1   a step succeeded, but its files could not be saved
├── TooManyLinks                 exit 1   the symbolic links of a tree cannot all be followed
├── WaitingForPerson             exit 1   a person has not answered yet
├── BadInput
│   ├── EntityNotFound           exit 2   no single entity has this id
│   └── EventsInvalid            exit 2   a file of events cannot be merged
└── Unavailable
    └── LogUnavailable           exit 3   the log cannot be read or written
"""

from contracts.errors import BadInput, HarnessError, Unavailable


class LogDamaged(HarnessError):
    """The log lacks events that it once had, or holds events that were never appended."""


class OperationFailed(HarnessError):
    """The operation of a step failed."""


class ResultNotSaved(HarnessError):
    """An operation succeeded, but its result could not be saved; it must not be repeated."""


class TooManyLinks(HarnessError):
    """Following all symbolic links of a tree would take too long."""


class WaitingForPerson(HarnessError):
    """A person has not answered yet; the step continues after the answer."""


class EventsInvalid(BadInput):
    """A file is not a complete export of an event log, or conflicts with the log here."""


class EntityNotFound(BadInput):
    """No entity, or more than one, has an id with this prefix."""


class LogUnavailable(Unavailable):
    """The event log cannot be read or written, so the action could not be audited."""
