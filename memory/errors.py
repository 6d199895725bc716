"""Errors of memory, below the tree in contracts/errors.py.

HarnessError
├── StaleUpdate                  exit 1   the entry was changed since it was read
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
    """A playbook, or a change of one, that cannot be stored."""


class PlaybookNotFound(BadInput):
    """No playbook has this id or slug."""


class NoteInvalid(BadInput):
    """A note, an example, or a setting of an agent that cannot be stored."""


class NoteNotFound(BadInput):
    """No note or example has this id."""


class AgentUnknown(BadInput):
    """No agent has this name."""


class StaleUpdate(HarnessError):
    """The entry is no longer at the version that the change was made from."""


class StoreUnavailable(Unavailable):
    """The database does not answer, or cannot be written."""


class StoreBusy(StoreUnavailable):
    """Another process holds a lock for longer than the caller waits."""


class StoreCorrupt(StoreUnavailable):
    """The database file, or a row in it, is damaged."""


class StoreTooNew(StoreUnavailable):
    """A newer Harness has migrated the database."""
