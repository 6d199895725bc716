"""A newer base for work that is pushed: whether both conflict, and whether the work has it whole.

The merge itself is made inside the sandbox (`merge_into_sandbox` in `sandbox/workspace.py`).
"""

from contracts.errors import WorkRefused
from sandbox.git import GitCommandFailed, our_repository
from sandbox.repos import BaseCommit

_MARKER = "^(<<<<<<<|>>>>>>>)( |$)"
_NAMED = 5


def conflicts(base: BaseCommit, commit: str) -> bool:
    """Return whether git finds conflicts when it merges the base with `commit`, without files.

    Raises:
        GitFailed: git before 2.38, or the commits have no history in common.
    """
    with our_repository(base.bare) as repository:
        try:
            repository.git.merge_tree("--write-tree", "--no-messages", base.commit, commit)
        except GitCommandFailed as error:
            if error.status == 1:
                return True
            raise
    return False


def check_merged(base: BaseCommit, commit: str) -> None:
    """Check that a commit has the base in its history, and adds no conflict marker to it.

    Raises:
        WorkRefused: it has not, or it does; the message names the files.
    """
    with our_repository(base.bare) as repository:
        if repository.git.rev_list("--max-count=1", base.commit, f"^{commit}"):
            raise WorkRefused("the newest commit of the base branch is not merged into the work")
        listed = repository.git.output(
            "diff", "--name-only", "-z", "--no-renames", f"-G{_MARKER}", base.commit, commit, "--"
        )
    paths = [path.decode("utf-8", "replace") for path in listed.split(b"\0") if path]
    if paths:
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        raise WorkRefused(f"conflict markers are left in {', '.join(paths[:_NAMED])}{more}")
