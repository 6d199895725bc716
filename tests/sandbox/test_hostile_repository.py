"""A `.git` made to run code or to write on the host when its work is collected.

The canary is a directory on the host that the container cannot see: what changes it ran here.
"""

from pathlib import Path

import pytest

from contracts.errors import WorkRefused
from contracts.sandbox import Command
from sandbox.branches import publish_branch
from sandbox.container import DockerSandbox
from sandbox.diffs import diff
from sandbox.images import BASE_IMAGE
from sandbox.repos import BaseCommit
from sandbox.spec import SandboxSpec
from sandbox.workspace import clone_into_sandbox, collect_work
from tests.support.git_repos import every_byte, run_git

pytestmark = pytest.mark.docker

BRANCH = "harness/r-1/fix-tests"
SPEC = SandboxSpec(image=BASE_IMAGE, owner="harness-tests-hostile", run_id="r-1")

HOOKS = (
    "applypatch-msg pre-applypatch post-applypatch pre-commit prepare-commit-msg commit-msg "
    "post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive "
    "post-receive post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite "
    "fsmonitor-watchman post-index-change sendemail-validate"
)

ATTACKS = {
    "every hook": (
        f"mkdir -p .git/hooks; for h in {HOOKS}; do "
        "printf '#!/bin/sh\\n%s\\n' \"$EVIL\" > .git/hooks/$h; chmod +x .git/hooks/$h; done"
    ),
    "hooks elsewhere": (
        "mkdir evil-hooks; for h in post-checkout pre-commit update; do "
        "printf '#!/bin/sh\\n%s\\n' \"$EVIL\" > evil-hooks/$h; chmod +x evil-hooks/$h; done; "
        "git config core.hooksPath evil-hooks"
    ),
    "a file system monitor": (
        'git config core.fsmonitor "$EVIL"; git config core.fsmonitorHookVersion 2'
    ),
    "an included config": (
        'git config --file .evil core.fsmonitor "$EVIL"; git config --file .evil diff.external '
        '"$EVIL"; git config include.path ../.evil; git config includeIf.gitdir:/.path ../.evil'
    ),
    "filters": (
        'for k in clean smudge process; do git config filter.x.$k "$EVIL"; done; '
        "git config filter.x.required true; echo '* filter=x' > .gitattributes"
    ),
    "diff and merge drivers": (
        'git config diff.x.command "$EVIL"; git config diff.x.textconv "$EVIL"; '
        'git config merge.x.driver "$EVIL"; git config diff.external "$EVIL"; '
        "echo '* diff=x merge=x' > .gitattributes; cp .gitattributes .git/info/attributes"
    ),
    "large file storage": (
        "git config lfs.url ext::evil; git config lfs.customtransfer.x.path \"$EVIL\"; "
        "git config lfs.standalonetransferagent x; git config filter.lfs.process \"$EVIL\"; "
        "git config filter.lfs.clean \"$EVIL\"; echo '* filter=lfs' > .gitattributes; "
        "printf '[lfs]\\n\\turl = ext::evil\\n' > .lfsconfig; "
        "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:0\\nsize 1\\n' > big.bin"
    ),
    "a submodule with a command": (
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ext::evil\\n\\tupdate = !%s\\n' "
        '"$EVIL" > .gitmodules; git config submodule.x.update "!$EVIL"; '
        "git config submodule.x.url ext::x; "
        "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),x"
    ),
    "programs that git calls": (
        "for k in core.sshCommand core.pager core.editor core.askPass core.gitProxy gpg.program "
        "gpg.ssh.program credential.helper sequence.editor uploadpack.packObjectsHook "
        "core.alternateRefsCommand trailer.x.command remote.origin.uploadpack "
        'remote.origin.receivepack; do git config $k "$EVIL"; done; '
        'git config alias.add "!$EVIL"; git config commit.gpgSign true'
    ),
    "another transport": (
        "git config protocol.allow always; git config protocol.ext.allow always; "
        "git config remote.origin.url \"ext::sh -c '$EVIL'\"; "
        "git config url.ext::evil.insteadOf /; git config branch.main.remote origin"
    ),
    "a git directory elsewhere": "mv .git .real; echo 'gitdir: .real' > .git",
    "a work tree elsewhere": 'git config core.bare false; git config core.worktree "$CANARY"',
    "objects from the host": (
        'mkdir -p .git/objects/info; echo "$CANARY" > .git/objects/info/alternates'
    ),
    "links out of the work tree": (
        'ln -s "$CANARY/file" out; ln -sf "$CANARY/file" hello.txt; ln -s "$CANARY" directory; '
        "ln -s ../../../../../../etc up; ln -s /proc/self/environ env"
    ),
    "links within .git": (
        'for f in ORIG_HEAD FETCH_HEAD COMMIT_EDITMSG description; do ln -sf "$CANARY/file" '
        '.git/$f; done; ln -sfn "$CANARY" .git/logs; ln -sfn "$CANARY" .git/refs/tags'
    ),
    "an index that is garbage": "head -c 5000 /dev/urandom > .git/index",
    "an index with escaping paths": (
        "sha=$(echo x | git hash-object -w --stdin); "
        "printf '100644 %s\\t../../escape\\n100644 %s\\t.git/hooks/x\\n' $sha $sha | "
        "git update-index --index-info; true"
    ),
    "a branch named as an option": (
        "git symbolic-ref HEAD 'refs/heads/--upload-pack=touch'; "
        "git update-ref 'refs/heads/--upload-pack=touch' HEAD@{0} 2>/dev/null; true"
    ),
    "few trees that are endless paths": (
        "good=$(git rev-parse HEAD^{tree}); t=$good; for depth in $(seq 12); do "
        "t=$(for n in $(seq 10); do printf '040000 tree %s\\t%s\\n' $t $n; done | git mktree); "
        "done; git update-ref HEAD $(git commit-tree -p HEAD -m x $t); git replace $t $good"
    ),
    "a forged identity": (
        "git config user.name \"$(printf 'a\\033[2J<b>')\"; git config user.email -x; "
        "git config i18n.commitEncoding evil; git config commit.template \"$CANARY/file\""
    ),
}  # fmt: skip


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    canary = tmp_path / "canary"
    canary.mkdir()
    (canary / "file").write_text("untouched")
    return canary


@pytest.fixture
def attacked(docker_sandbox: DockerSandbox, base: BaseCommit) -> DockerSandbox:
    clone_into_sandbox(docker_sandbox, base, BRANCH)
    return docker_sandbox


def collect(sandbox: DockerSandbox, base: BaseCommit) -> bool:
    """Everything that the host does with the work; False when none could be taken."""
    try:
        work = collect_work(sandbox, base, BRANCH, message="Leftovers")
    except WorkRefused as error:
        assert str(error).isprintable()
        return False
    if work is None:
        return False
    publish_branch(base, BRANCH, work.commit)
    diff(base, work.commit)
    return True


def outside_objects(repo: Path) -> dict[str, bytes]:
    """Every file of the user's repository but new objects and the branch with its log."""
    ref = f"refs/heads/{BRANCH}"
    ours = (".git/objects/", f".git/{ref}", f".git/logs/{ref}")
    return {n: data for n, data in every_byte(repo).items() if not n.startswith(ours)}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_host_runs_nothing_and_writes_nothing_but_the_branch(
    attacked: DockerSandbox, base: BaseCommit, repo: Path, canary: Path, tmp_path: Path, attack: str
) -> None:
    evil = f"touch {canary}/ran; rm -f {canary}/file"
    env = {"EVIL": evil, "CANARY": str(canary)}
    line = f"cp hello.txt changed.txt; {ATTACKS[attack]}"
    prepared = attacked.exec(Command(argv=("sh", "-c", line), env=env))
    assert prepared.ok, prepared.text
    before, places = outside_objects(repo), set(tmp_path.iterdir())

    taken = collect(attacked, base)

    assert every_byte(canary) == {"file": b"untouched"}
    assert outside_objects(repo) == before
    assert set(tmp_path.iterdir()) == places
    assert run_git(repo, "status", "--porcelain") == ""
    if taken:
        assert run_git(repo, "cat-file", "-t", BRANCH) == "commit"
