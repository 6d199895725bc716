"""Files that are protected by default, and the globs that permit changing them."""

import pytest

from contracts.model_access import GuardBounds
from policy.guard.changed_files import ChangedFile, forbidden_changes, forbidden_message
from policy.guard.guard import is_protected
from policy.guard.links import SymbolicLinks
from policy.guard.protected import (
    default_patterns,
    is_protected_path,
    lock_files,
    permits_every_group,
    protected_groups,
    reason_for,
)

BOUNDS = GuardBounds(taint=("repo:shop",), protected=default_patterns())

IN_ANY_FOLDER = """
.gitlab-ci.yml .gitlab-ci-deploy.yaml .drone.yml .drone.star Jenkinsfile Jenkinsfile.release
release.jenkinsfile azure-pipelines.yml azure-pipelines.yaml azure-pipelines-nightly.yml
bitbucket-pipelines.yml appveyor.yml .appveyor.yml .travis.yml .teamcity/settings.kts
cloudbuild.yaml cloudbuild.yml cloudbuild.json buildspec.yml buildspec.yaml codefresh.yml
netlify.toml vercel.json amplify.yml bitrise.yml appspec.yml Procfile render.yaml
renovate.json .renovaterc .renovaterc.json .coderabbit.yaml
.npmrc pip.conf pip.ini .yarnrc .yarnrc.yml
.yarn/releases/yarn-4.cjs .yarn/plugins/@yarnpkg/x.cjs .yarn/sdks/typescript/bin/tsc .pnpmfile.cjs
.pnp.cjs .cargo/config.toml .cargo/config uv.toml .pypirc bunfig.toml nuget.config NuGet.Config
.bundle/config .gemrc poetry.toml pdm.toml .condarc pnpm-workspace.yaml auth.json .bowerrc
.mvn/wrapper/maven-wrapper.properties .mvn/extensions.xml .mvn/jvm.config mvnw mvnw.cmd gradlew
gradlew.bat gradle/wrapper/gradle-wrapper.jar gradle/wrapper/gradle-wrapper.properties .sbtopts
.bazelrc .bazelversion tools/bazel rust-toolchain rust-toolchain.toml .config/dotnet-tools.json
.claude/settings.json .claude/skills/x/SKILL.md .mcp.json mcp.json
AGENTS.md AGENTS.override.md CLAUDE.md CLAUDE.local.md GEMINI.md QWEN.md .cursor/rules/x.mdc
.cursor/mcp.json .cursorrules .windsurfrules .windsurf/rules/x.md .clinerules .clinerules/x.md
.aider.conf.yml .codex/config.toml .opencode/agent/x.md opencode.json opencode.jsonc
copilot-instructions.md python.instructions.md .pi/settings.json .roo/rules/x.md .kiro/hooks/x
.goosehints .junie/guidelines.md .openhands/setup.sh CRUSH.md WARP.md .rules
.git/hooks/pre-commit .gitmodules .gitconfig
.husky/pre-commit .githooks/pre-push .git-hooks/x lefthook.yml lefthook.yaml lefthook.toml
lefthook.json .lefthook.yml lefthook-local.yml .lefthook-local.yml .lefthook/pre-commit/x.sh
.overcommit.yml .pre-commit-config.yaml .pre-commit-hooks.yaml prek.toml .lintstagedrc.json
lint-staged.config.mjs captainhook.json grumphp.yml
.devcontainer/devcontainer.json .devcontainer/post-create.sh .devcontainer.json .gitpod.yml
.gitpod.Dockerfile .idx/dev.nix .codesandbox/tasks.json .replit replit.nix
.vscode/tasks.json .vscode/settings.json .vscode/launch.json .vscode/extensions.json
.idea/runConfigurations/x.xml .run/x.run.xml .zed/tasks.json x.code-workspace .exrc .vimrc
.dir-locals.el x.sublime-project CODEOWNERS docs/CODEOWNERS OWNERS OWNERS_ALIASES
.envrc .tool-versions mise.toml .mise.toml .mise.local.toml .config/mise/config.toml
.mise/tasks/build devbox.json sitecustomize.py
uv.lock package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock
poetry.lock pdm.lock Pipfile.lock pixi.lock pylock.toml pylock.dev.toml conda-lock.yml Cargo.lock
Gemfile.lock composer.lock go.sum go.work.sum mix.lock pubspec.lock Podfile.lock Package.resolved
Cartfile.resolved packages.lock.json paket.lock gradle.lockfile gradle/verification-metadata.xml
.terraform.lock.hcl Chart.lock flake.lock stack.yaml.lock conan.lock MODULE.bazel.lock renv.lock
"""

IN_THE_ROOT = """
.github/workflows/ci.yml .github/dependabot.yml .github/actions/x/action.yml
.github/copilot-instructions.d/x .gitea/workflows/x.yml .forgejo/workflows/x.yml .gitlab/ci/x.yml
.circleci/config.yml .buildkite/pipeline.yml .woodpecker/x.yml .woodpecker.yml .woodpecker.yaml
.jenkins/x.groovy .azuredevops/x.yml .ci/build .tekton/x.yaml .semaphore/semaphore.yml .cirrus.yml
.cirrus.star .prow.yaml .prow/x.yaml .build.yml .builds/x.yml wercker.yml .zuul.yaml zuul.d/x.yaml
.agola/config.yml .packit.yaml .readthedocs.yaml .taskcluster.yml .mergify.yml bors.toml .snyk
"""

NOT_PROTECTED = """
hours.py src/config.py config.yml settings.py settings.json tasks.json launch.json README.md
docs/github/workflows.md docs/agents.md.txt my-AGENTS.md agents.py github/workflows/ci.yml
tests/test_ci.yml ci.yml docker-compose.yml Dockerfile package.json pyproject.toml Cargo.toml
config/cargo/config.toml src/config.toml cargo/config build.yml mvn/x.xml requirements.txt
gradle/libs.versions.toml gradle.properties build.gradle yarn/releases/x.js .yarn/cache/x.zip
husky/pre-commit .env.example .gitignore .gitattributes .editorconfig .vscode/notes.md
vscode/settings.json claude/settings.json app/owners.py OWNERS.py codeowners.py lock.py block.txt
unlocked jenkins/file.groovy drone.py cloudbuild.py pip.py npmrc idea/x.xml run/x.sh
.cargo/README.md
bundle/config mise.py a.lock data.lock x.lock.py file.lock.bak clock.json package-lock.json.md
tests/data/a.lock lockfile.txt lock locks/a.txt uv.lock.orig my-uv.lock.txt src/lock/file.py
package.lock yarn.lock.json go.mod go.sum.txt Gemfile composer.json mix.exs flake.nix stack.yaml
pixi.toml deno.json bun.ts Pipfile environment.yml setup.py setup.cfg tox.ini noxfile.py Makefile
justfile Taskfile.yml CMakeLists.txt meson.build Vagrantfile Jenkins.md travis.yml
circleci/config.yml buildkite/pipeline.yml woodpecker.py tekton/x.yaml semaphore.py appveyor.md
teamcity/x.kts cirrus.py prow.py netlify.md vercel.py render.py renovate.md mergify.py
hooks/pre-push
githooks/x git-hooks/x pre-commit-config.yaml lefthook.md lintstagedrc.md overcommit.rb huskyrc.md
pypirc.md yarnrc.md pnpmfile.cjs cargo.toml nuget.md bunfig.md condarc.md gemrc.md bazelrc.md
mvnw.md gradlew.md gradle/wrapper.md sbtopts.md toolchain.toml envrc.md tool-versions.md devbox.md
AGENTS.rst CLAUDE.txt GEMINI.rst claude.md.j2 cursor/rules.md windsurf/x.md aider.py codex/x.toml
opencode.py mcp.py mcp.json.md continue.py junie/x.md kiro.py roo.py goose.py instructions.md
devcontainer/Dockerfile gitpod.md replit.py idx/x.nix sandbox.json workspace.py exrc.md vimrc.md
editor/tasks.json run.py fleet.py zed/tasks.json sublime.py owners/x.py CODEOWNERS.md docs/owners.md
procfile.md site.py customize.py git/config gitmodules.md src/git/hooks.py
"""

FIXTURES = """
tests/fixtures/.github/workflows/ci.yml tests/data/.circleci/config.yml examples/.mergify.yml
fixtures/.woodpecker.yml docs/.tekton/x.yaml sample/.cirrus.yml vendor/x/.buildkite/pipeline.yml
"""


@pytest.mark.parametrize("path", [*IN_ANY_FOLDER.split(), *IN_THE_ROOT.split()])
def test_files_that_others_execute_or_obey_are_protected(path: str) -> None:
    assert is_protected(path, BOUNDS)
    assert is_protected(path.upper(), BOUNDS)
    assert reason_for(path)


@pytest.mark.parametrize("folder", ["packages/a/", "vendor/x/y/z/"])
def test_files_that_a_tool_looks_for_in_any_folder_are_protected_in_any_folder(folder: str) -> None:
    assert [one for one in IN_ANY_FOLDER.split() if not is_protected(folder + one, BOUNDS)] == []


@pytest.mark.parametrize("path", [*NOT_PROTECTED.split(), *FIXTURES.split()])
def test_files_that_look_similar_and_fixtures_are_not_protected(path: str) -> None:
    assert not is_protected(path, BOUNDS)


def test_more_than_150_paths_are_tested_both_ways() -> None:
    assert len(set(IN_ANY_FOLDER.split()) | set(IN_THE_ROOT.split())) > 150
    assert len(set(NOT_PROTECTED.split()) | set(FIXTURES.split())) > 150


def test_each_pattern_of_the_list_says_what_executes_or_obeys_the_file() -> None:
    rows = [row for group in protected_groups().values() for row in group.items()]
    assert [pattern for pattern, reason in rows if len(reason.split()) < 3] == []
    assert len({pattern.casefold() for pattern, _ in rows}) == len(rows)


@pytest.mark.parametrize(
    "path",
    [
        ".g\u0456thub/workflows/ci.yml",
        ".git\u200chub/workflows/ci.yml",
        "\uff0egithub/workflows/ci.yml",
        ".github./workflows /ci.yml",
        ".github::$INDEX_ALLOCATION/workflows/ci.yml",
        ".github\\workflows\\ci.yml",
        "\u0421LAUDE.md",
        "a/.npm\u00adrc",
        "package\u2010lock.json",
        "\ufb02ake.lock",
        "pac\u212aage-lock.json",
    ],
)
def test_a_name_that_a_system_or_a_reader_takes_for_a_protected_one_is_protected(path: str) -> None:
    assert is_protected_path(path, default_patterns())


@pytest.mark.parametrize(
    "path", [".husky", ".vscode", ".cargo", "a/.yarn", ".mvn", "gradle/wrapper", ".github"]
)  # fmt: skip
def test_replacing_a_protected_folder_by_a_file_is_protected(path: str) -> None:
    assert is_protected(path, BOUNDS)


def test_a_configured_pattern_protects_its_folders_and_no_siblings() -> None:
    own = GuardBounds(protected=("deploy/prod/*.yml", "src/*/generated.py", "/only-here"))
    assert is_protected("deploy/prod", own)
    assert is_protected("deploy", own)
    assert is_protected("src", own)
    assert not is_protected("bin/deploy", own)
    assert not is_protected("src/main.py", own)
    assert is_protected("only-here", own)
    assert not is_protected("a/only-here", own)


def test_a_pattern_with_an_exclamation_mark_cuts_files_from_the_list() -> None:
    own = GuardBounds(protected=(*default_patterns(), "!tests/fixtures/**"))
    assert not is_protected("tests/fixtures/app/package-lock.json", own)
    assert is_protected("tests/package-lock.json", own)


def unpermitted_paths(
    bounds: GuardBounds, *paths: str, links: SymbolicLinks | None = None
) -> list[str]:
    changes = [ChangedFile(path, "0", "1") for path in paths]
    links = links or SymbolicLinks({})
    return [one.change.path for one in forbidden_changes(changes, bounds, [links])]


def test_allow_change_permits_only_whole_paths_as_they_are_written() -> None:
    bounds = GuardBounds(
        protected=default_patterns(), changes=(".github/workflows/*", "uv.lock", "**/Cargo.lock")
    )
    permitted = (".github/workflows/ci.yml", "uv.lock", "Cargo.lock", "a/b/Cargo.lock")
    others = (".github/dependabot.yml", "a/uv.lock", "UV.lock", "b/cargo.lock", ".npmrc")
    assert unpermitted_paths(bounds, *permitted, *others, "x.py") == list(others)


@pytest.mark.parametrize("globs", [("**",), ("**/*",), ("**/.*", "**/*"), ("*", "**/?*")])
def test_globs_that_permit_files_of_every_kind_are_noticed(globs: tuple[str, ...]) -> None:
    assert permits_every_group(globs)


@pytest.mark.parametrize("globs", [(), (".github/**",), ("**/*.lock",), ("**/.*",), ("src/**",)])
def test_globs_that_permit_some_kinds_of_files_need_no_confirmation(globs: tuple[str, ...]) -> None:
    assert not permits_every_group(globs)


@pytest.mark.parametrize("path", ["uv.lock", "packages/a/package-lock.json"])
def test_the_lock_files_that_upgrade_deps_may_change_are_permitted(path: str) -> None:
    bounds = GuardBounds(protected=default_patterns(), changes=lock_files())
    assert unpermitted_paths(bounds, path, ".npmrc") == [".npmrc"]


HUSKY = SymbolicLinks({".husky": "tools/husky"})


def test_the_target_of_a_link_with_a_protected_name_is_protected() -> None:
    (found,) = forbidden_changes([ChangedFile("tools/husky/pre-commit", "0", "1")], BOUNDS, [HUSKY])
    assert found.protected_name == ".husky/pre-commit"
    assert unpermitted_paths(BOUNDS, "tools/other", "tools/husky2", links=HUSKY) == []


def test_a_link_of_the_work_counts_like_one_of_the_base() -> None:
    none, bounds = SymbolicLinks({}), GuardBounds(protected=default_patterns(), changes=(".husky",))
    changes = [ChangedFile(".husky", "0", "1"), ChangedFile("tools/husky/pre-commit", "0", "1")]
    (found,) = forbidden_changes(changes, bounds, [none, HUSKY])
    assert found.protected_name == ".husky/pre-commit"


@pytest.mark.parametrize(("before", "after"), [("160000 a", "160000 b"), ("000000 0", "160000 b")])
def test_another_commit_of_a_submodule_is_a_question(before: str, after: str) -> None:
    change = ChangedFile("vendor/lib", before, after)
    found = forbidden_changes([change], BOUNDS, [SymbolicLinks({})])
    assert "'vendor/lib' is a submodule, whose content is not in the work" in forbidden_message(
        found
    )
    permitted = GuardBounds(protected=default_patterns(), changes=("vendor/lib",))
    assert forbidden_changes([change], permitted, [SymbolicLinks({})]) == ()


@pytest.mark.parametrize("pattern", [".husky/**", "tools/husky/**"])
def test_permitting_either_name_of_a_linked_file_permits_it(pattern: str) -> None:
    bounds = GuardBounds(protected=default_patterns(), changes=(pattern,))
    assert unpermitted_paths(bounds, "tools/husky/pre-commit", links=HUSKY) == []


def test_a_link_with_a_permitted_name_permits_no_other_protected_file() -> None:
    bounds = GuardBounds(protected=default_patterns(), changes=("*.lock", "docs/**"))
    links = SymbolicLinks({"x.lock": ".github/workflows/ci.yml", "docs/ci": "../.github"})
    ci = ".github/workflows/ci.yml"
    assert unpermitted_paths(bounds, ci, links=links) == [ci]
    links = SymbolicLinks(
        {"y.lock": "tools/pre-commit", ".husky/pre-commit": "../tools/pre-commit"}
    )
    assert unpermitted_paths(bounds, "tools/pre-commit", links=links) == ["tools/pre-commit"]
