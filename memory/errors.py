"""What can go wrong in memory, hung below the tree in contracts/errors.py.

HarnessError
├── StaleUpdate                  exit 1   somebody else changed the same thing in between
├── ImportStopped                exit 1   a file is imported in part
├── BadInput
│   ├── PlaybookInvalid          exit 2
│   ├── PlaybookNotFound         exit 2
│   ├── NoteInvalid              exit 2
│   ├── NoteNotFound             exit 2
│   └── AgentUnknown             exit 2
└── Unavailable
    └── StoreUnavailable         exit 3   the database cannot be used
        ├── StoreBusy
        ├── StoreCorrupt
        └── StoreTooNew
"""

from contracts.errors import BadInput, HarnessError, Unavailable


class PlaybookInvalid(BadInput):
    """A playbook, or a change of one, that cannot be kept."""


class PlaybookNotFound(BadInput):
    """No playbook has this id or slug."""


class NoteInvalid(BadInput):
    """A note, an example, or a setting of an agent that cannot be kept."""


class NoteNotFound(BadInput):
    """No note or example has this id."""


class AgentUnknown(BadInput):
    """No agent has this name."""


class StaleUpdate(HarnessError):
    """What was to be changed is no longer at the version that the change was made from."""


class ImportIncomplete(HarnessError):
    """An import ended before the end of its file; the message says how far it came, and why."""


class StoreUnavailable(Unavailable):
    """The database does not answer, or cannot be written."""


class StoreBusy(StoreUnavailable):
    """Another process has the database, or a part of it, for longer than one waits."""


class StoreCorrupt(StoreUnavailable):
    """The database file is damaged."""


class StoreTooNew(StoreUnavailable):
    """A newer Harness has changed the database in a way that this one does not know."""
