"""Errors of memory, below the tree in contracts/errors.py.

HarnessError
├── StaleUpdate                  exit 1   the entry was changed since it was read
├── BadInput
│   ├── EntryInvalid             exit 2
│   ├── EntryNotFound            exit 2
│   └── AgentUnknown             exit 2
└── Unavailable
    └── StoreUnavailable         exit 3   the database cannot be used
        ├── StoreBusy
        ├── StoreCorrupt
        └── StoreTooNew
"""

from contracts.errors import BadInput, HarnessError, Unavailable


class EntryInvalid(BadInput):
    """A playbook, a note, an example, or a setting about them that cannot be stored."""


class EntryNotFound(BadInput):
    """No playbook, note or example has this id or slug."""


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
