"""Files that are protected by default, and the options that permit changing them."""

import pytest

from contracts.model_access import GuardBounds
from policy.guard.changed_files import ChangedFile, SymbolicLinks, forbidden_changes
from policy.guard.guard import is_protected
from policy.guard.protected import PROTECTED

BOUNDS = GuardBounds(taint=("repo:shop",), protected=PROTECTED)

EXECUTED_OR_OBEYED = """
.github/workflows/ci.yml .github/dependabot.yml .gitea/workflows/x.yml .forgejo/workflows/x.yml
.gitlab-ci.yml .gitlab-ci-deploy.yml .gitlab/ci/x.yml .circleci/config.yml .buildkite/pipeline.yml
.woodpecker/x.yml .woodpecker.yml .woodpecker.yaml .drone.yml .drone.star Jenkinsfile
Jenkinsfile.release azure-pipelines.yml azure-pipelines.yaml azure-pipelines-nightly.yml
bitbucket-pipelines.yml appveyor.yml .appveyor.yml .travis.yml .ci/build .tekton/x.yaml
.semaphore/semaphore.yml .teamcity/settings.kts .cirrus.yml .cirrus.star cloudbuild.yaml
cloudbuild.yml buildspec.yml buildspec.yaml .prow.yaml .prow/x.yaml .build.yml .builds/x.yml
wercker.yml codefresh.yml .zuul.yaml netlify.toml .npmrc pip.conf .yarnrc .yarnrc.yml
.yarn/releases/yarn-4.cjs .yarn/plugins/@yarnpkg/x.cjs .pnpmfile.cjs .cargo/config.toml
.cargo/config uv.toml .pypirc bunfig.toml nuget.config NuGet.Config .bundle/config .gemrc
poetry.toml pnpm-workspace.yaml .mvn/wrapper/maven-wrapper.properties .mvn/extensions.xml
.mvn/jvm.config mvnw mvnw.cmd gradlew gradlew.bat gradle/wrapper/gradle-wrapper.jar
gradle/wrapper/gradle-wrapper.properties .claude/settings.json .claude/skills/x/SKILL.md .mcp.json
AGENTS.md AGENTS.override.md CLAUDE.md CLAUDE.local.md GEMINI.md .cursor/rules/x.mdc
.cursor/mcp.json .cursorrules .windsurfrules .windsurf/rules/x.md .clinerules .clinerules/x.md
.aider.conf.yml .codex/config.toml .opencode/agent/x.md opencode.json copilot-instructions.md
.github/copilot-instructions.md .pi/settings.json .git/hooks/pre-commit .gitmodules
.husky/pre-commit .githooks/pre-push lefthook.yml lefthook.yaml lefthook.toml lefthook.json
.lefthook.yml lefthook-local.yml .lefthook-local.yml .lefthook/pre-commit/x.sh .overcommit.yml
.pre-commit-config.yaml .pre-commit-hooks.yaml .lintstagedrc.json .devcontainer/devcontainer.json
.devcontainer/post-create.sh .devcontainer.json .vscode/tasks.json .vscode/settings.json
.vscode/launch.json .vscode/extensions.json .idea/runConfigurations/x.xml .run/x.run.xml
.zed/tasks.json x.code-workspace CODEOWNERS docs/CODEOWNERS OWNERS .envrc .tool-versions mise.toml
.mise.toml .config/mise/config.toml uv.lock package-lock.json pnpm-lock.yaml go.sum
gradle.lockfile .terraform.lock.hcl
"""

EVERYDAY = """
hours.py src/config.py config.yml settings.py settings.json tasks.json launch.json README.md
docs/github/workflows.md docs/agents.md.txt my-AGENTS.md agents.py github/workflows/ci.yml
tests/test_ci.yml ci.yml docker-compose.yml Dockerfile package.json pyproject.toml Cargo.toml
config/cargo/config.toml src/config.toml cargo/config build.yml mvn/x.xml
gradle/libs.versions.toml gradle.properties yarn/releases/x.js .yarn/cache/x.zip husky/pre-commit
.env.example .gitignore .gitattributes .editorconfig .vscode/notes.md vscode/settings.json
claude/settings.json app/owners.py OWNERS.py codeowners.py lock.py block.txt unlocked
jenkins/file.groovy drone.py cloudbuild.py pip.py npmrc idea/x.xml run/x.sh .cargo/README.md
bundle/config mise.py
"""


@pytest.mark.parametrize("path", EXECUTED_OR_OBEYED.split())
@pytest.mark.parametrize("folder", ["", "packages/a/", "vendor/x/y/z/"])
def test_default_patterns_protect_files_at_any_depth(folder: str, path: str) -> None:
    assert is_protected(folder + path, BOUNDS)
    assert is_protected((folder + path).upper(), BOUNDS)


@pytest.mark.parametrize("path", EVERYDAY.split())
def test_everyday_files_are_not_protected(path: str) -> None:
    assert not is_protected(path, BOUNDS)
    assert not is_protected(f"packages/a/{path}", BOUNDS)


@pytest.mark.parametrize(
    "path", [".husky", ".vscode", ".cargo", "a/.yarn", ".mvn", "gradle/wrapper", ".github"]
)  # fmt: skip
def test_replacing_a_protected_folder_by_a_file_is_protected(path: str) -> None:
    assert is_protected(path, BOUNDS)


def test_a_configured_pattern_protects_its_folders_and_no_siblings() -> None:
    own = GuardBounds(protected=("deploy/prod/*.yml", "src/*/generated.py"))
    assert is_protected("deploy/prod", own)
    assert is_protected("deploy", own)
    assert is_protected("src", own)
    assert not is_protected("bin/deploy", own)
    assert not is_protected("src/main.py", own)


def unpermitted_paths(
    bounds: GuardBounds, *paths: str, links: SymbolicLinks | None = None
) -> list[str]:
    changes = [ChangedFile(path, "0", "1") for path in paths]
    return [
        one.change.path for one in forbidden_changes(changes, bounds, links or SymbolicLinks({}))
    ]


def test_allow_change_permits_only_matching_files() -> None:
    bounds = GuardBounds(protected=PROTECTED, changes=(".github/workflows/*", "uv.lock"))
    paths = (".github/workflows/ci.yml", ".github/dependabot.yml", "a/uv.lock", ".npmrc", "x.py")
    assert unpermitted_paths(bounds, *paths) == [".github/dependabot.yml", ".npmrc"]


HUSKY = SymbolicLinks({".husky": "tools/husky"})


def test_the_target_of_a_link_with_a_protected_name_is_protected() -> None:
    (found,) = forbidden_changes([ChangedFile("tools/husky/pre-commit", "0", "1")], BOUNDS, HUSKY)
    assert found.protected_name == ".husky/pre-commit"
    assert unpermitted_paths(BOUNDS, "tools/other", "tools/husky2", links=HUSKY) == []


@pytest.mark.parametrize("pattern", [".husky/**", "tools/husky/**"])
def test_permitting_either_name_of_a_linked_file_permits_it(pattern: str) -> None:
    bounds = GuardBounds(protected=PROTECTED, changes=(pattern,))
    assert unpermitted_paths(bounds, "tools/husky/pre-commit", links=HUSKY) == []


def test_a_link_with_a_permitted_name_permits_no_other_protected_file() -> None:
    bounds = GuardBounds(protected=PROTECTED, changes=("*.lock", "docs/**"))
    links = SymbolicLinks({"x.lock": ".github/workflows/ci.yml", "docs/ci": "../.github"})
    ci = ".github/workflows/ci.yml"
    assert unpermitted_paths(bounds, ci, links=links) == [ci]
    links = SymbolicLinks(
        {"y.lock": "tools/pre-commit", ".husky/pre-commit": "../tools/pre-commit"}
    )
    assert unpermitted_paths(bounds, "tools/pre-commit", links=links) == ["tools/pre-commit"]
