"""Projects of many ecosystems are recognised by their files, with the packages that they need."""

import shlex

import pytest

from contracts.errors import BadInput, OptionInvalid
from contracts.sandbox import Command
from nodes.projects.ecosystems import ecosystems, package_of
from nodes.projects.find import detect, find_project
from nodes.projects.types import Project, ProjectFiles
from nodes.projects.work import require_tests
from sandbox.scripted import ScriptedSandbox
from tests.support.workspace import context, write

JEST = '{"scripts": {"test": "jest"}}'
PYTEST = {"pyproject.toml": "[tool.pytest.ini_options]\n"}


def detected(files: dict[str, str], *, online: bool = True, **options: str) -> Project:
    folders = {
        "/".join(path.split("/")[:depth])
        for path in files
        for depth in range(1, path.count("/") + 1)
    }
    content = ProjectFiles(frozenset(files) | folders, lambda name: files[name].encode())
    return detect(content, options, work_dir="/workspace", can_reach=lambda _: online)


@pytest.mark.parametrize(
    ("files", "kind", "test"),
    [
        ({"go.mod": "module x\n", "x_test.go": ""}, "go", "go test ./..."),
        ({"Cargo.toml": "[package]\nname = 'x'\n"}, "rust", "cargo test"),
        ({"Cargo.toml": "[workspace]\nmembers = ['a']\n"}, "rust", "cargo test --workspace"),
        ({"pom.xml": "<project/>"}, "java", "mvn -B -ntp -o test"),
        ({"pom.xml": "<project/>", "build.gradle": ""}, "java", "mvn -B -ntp -o test"),
        (
            {"build.gradle.kts": "", "gradlew": "", "gradle/wrapper/gradle-wrapper.properties": ""},
            "gradle",
            "sh ./gradlew --no-daemon --offline test",
        ),
        ({"build.gradle": ""}, "gradle", "gradle --no-daemon --offline test"),
        ({"build.xml": '<project><target name="test"/></project>'}, "ant", "ant test"),
        (
            {"build.xml": '<target name="test"/><property name="javac.source" value="1.3"/>'},
            "ant",
            "ant -lib /usr/share/java/ecj.jar "
            "-Dbuild.compiler=org.eclipse.jdt.core.JDTCompilerAdapter "
            "-Dant.build.javac.source=1.6 test",
        ),
        ({"configure.ac": "AC_INIT\n", "Makefile.am": ""}, "autotools", "make check"),
        ({"Gemfile": "", "spec/a_spec.rb": ""}, "ruby", "bundle exec rspec"),
        ({"x.gemspec": "", ".rspec": ""}, "ruby", "rspec"),
        ({"x.gemspec": "", "Rakefile": "Rake::TestTask.new\n"}, "ruby", "rake"),
        ({"mix.exs": ""}, "elixir", "mix test"),
        ({"App.sln": ""}, "dotnet", "dotnet test --no-restore"),
        ({"justfile": "test:\n  true\n"}, "just", "just test"),
        ({"Taskfile.yml": "tasks:\n  test:\n"}, "task", "task test"),
        ({"package.json": JEST, "go.mod": ""}, "go", "go test ./..."),
        ({"Makefile": "test:\n", "Cargo.toml": "[package]\n"}, "rust", "cargo test"),
    ],
)
def test_the_ecosystem_is_recognised_by_its_files(
    files: dict[str, str], kind: str, test: str
) -> None:
    found = detected(files)
    assert (found.kind, " ".join(found.test or ())) == (kind, test)


@pytest.mark.parametrize(("cached", "asked"), [({}, ""), ({"vendor/cache/dep.gem": ""}, "asked")])
def test_without_its_index_bundler_is_asked_only_for_gems_of_the_repository(
    cached: dict[str, str], asked: str, sandbox: ScriptedSandbox
) -> None:
    write(sandbox, {"Gemfile": "gem 'dep'\n", "bin/bundle": "#!/bin/sh\necho asked\n", **cached})
    install = detected({"Gemfile": "", "spec/a_spec.rb": ""}, online=False).install
    assert install is not None
    line = f'chmod +x bin/bundle; PATH="$PWD/bin:$PATH" {shlex.join(install)}'
    done = sandbox.exec(Command(argv=("sh", "-c", line)))
    assert (done.ok, done.text.strip()) == (True, asked)


@pytest.mark.parametrize(
    ("files", "package"),
    [
        ({"go.mod": ""}, "golang-go/bookworm-backports"),
        ({"Makefile": "test:\n", "main.c": ""}, "build-essential"),
        ({"Makefile": "test:\n", "cmd/main.go": ""}, "golang-go/bookworm-backports"),
        ({"setup.py": "", "src/speed.c": "", "tests/test_a.py": "import pytest\n"}, "python3-dev"),
        ({"package.json": JEST, "binding.gyp": ""}, "build-essential"),
        ({"package.json": JEST, ".nvmrc": "v22\n"}, "npm:node@22"),
        ({"package.json": JEST, ".tool-versions": "nodejs 20.1.0\n"}, "npm:node@20"),
        ({"package.json": JEST, "mise.toml": "[tools]\nnode = '24'\n"}, "npm:node@24"),
        ({"package.json": JEST, "pnpm-lock.yaml": ""}, "npm:pnpm@9"),
    ],
)
def test_a_project_names_the_packages_of_its_toolchain(files: dict[str, str], package: str) -> None:
    assert package in detected(files).packages


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": "[tool.pdm.dev-dependencies]\ntest = ['wanted>=1']"},
        {"pyproject.toml": "[project]\nname = 'x'\n[tool.uv]\ndev-dependencies = ['wanted>=1']"},
        {"pyproject.toml": "[tool.hatch.envs.test]\ndependencies = ['wanted>=1']"},
        {"noxfile.py": "def tests(session):\n    session.install('.', 'wanted>=1')\n"},
        {"tox.ini": "[testenv]\ndeps = wanted>=1\n"},
        {"pyproject.toml": "[dependency-groups]\ntest = ['wanted>=1']"},
    ],
)
def test_what_tools_of_python_declare_for_tests_is_installed(files: dict[str, str]) -> None:
    found = detected({".git": "", "tests/test_a.py": "import pytest\n", **files})
    assert "wanted>=1" in (found.install or ())


def test_a_broken_noxfile_reads_as_empty() -> None:
    found = detected({".git": "", "tests/test_a.py": "import pytest\n", "noxfile.py": "def ("})
    assert found.test == ("python3", "-m", "pytest")


def test_a_plain_python_project_needs_no_package() -> None:
    assert detected(PYTEST).packages == ()


def test_the_choice_between_several_is_said() -> None:
    assert (
        "node (there is package.json) would fit too"
        in detected({**PYTEST, "package.json": JEST}).why
    )


def test_the_only_project_in_a_folder_is_found() -> None:
    found = detected({"README.md": "", "service/go.mod": ""})
    assert (found.folder, found.kind) == ("service", "go")


def test_of_several_projects_in_folders_none_is_guessed() -> None:
    found = detected({"a/go.mod": "", "b/package.json": JEST})
    assert found.test is None
    assert "a, b: --set project=PATH" in found.why


def test_a_project_in_a_folder_can_be_chosen() -> None:
    found = detected({"a/go.mod": "", "b/package.json": JEST}, project="b")
    assert (found.folder, found.kind) == ("b", "node")


def test_the_commands_run_in_the_project_s_folder(sandbox: ScriptedSandbox) -> None:
    write(sandbox, {"a/Makefile": "test:\n\ttrue\n", "b/Makefile": "test:\n\tfalse\n"})
    assert require_tests(context(sandbox, options={"project": "a"}), sandbox).status == "success"


@pytest.mark.parametrize("folder", ["..", "/etc", "a/../../b", ".git"])
def test_a_folder_outside_of_the_repository_is_refused(folder: str) -> None:
    with pytest.raises(OptionInvalid):
        detected({"a/go.mod": ""}, project=folder)


@pytest.mark.parametrize("name", ["-o", "a;b", "A", "../x", "$(x)", "npm:x y"])
def test_only_names_of_packages_are_taken(name: str) -> None:
    with pytest.raises(OptionInvalid):
        detected({".harness/environment.toml": f'packages = ["{name}"]\n'})


def test_the_repository_s_own_file_comes_before_the_table() -> None:
    said = 'packages = ["less"]\ninstall = "make deps"\ntest = "make unit"\ntimeout = 90\n'
    found = detected({**PYTEST, ".harness/environment.toml": said})
    assert (found.install, found.test) == (("make", "deps"), ("make", "unit"))
    assert (found.packages, found.test_timeout_s) == (("less",), 90)


@pytest.mark.parametrize(
    "line", ["egress = ['x']", "image = 'x'", "timeout = 0", "packages = 3", "="]
)
def test_what_the_repository_s_own_file_cannot_ask_for_is_refused(line: str) -> None:
    with pytest.raises(BadInput, match=r"environment\.toml"):
        detected({".harness/environment.toml": line})


def test_an_agent_cannot_change_what_the_repository_s_own_file_said(
    sandbox: ScriptedSandbox,
) -> None:
    write(sandbox, {".harness/environment.toml": 'install = "true"\ntest = "true"\n'})
    found = require_tests(context(sandbox), sandbox)
    write(sandbox, {".harness/environment.toml": 'install = "b"\ntest = "false"\n'})
    later = find_project(context(sandbox, results={"project": found}), sandbox)
    assert (later.install, later.test) == (("true",), ("true",))


def test_a_python_project_in_a_folder_is_imported_from_there(sandbox: ScriptedSandbox) -> None:
    write(sandbox, {"a/pyproject.toml": "[tool.pytest.ini_options]\n"})
    options = {"project": "a"}
    found = require_tests(context(sandbox, options=options), sandbox)
    later = find_project(context(sandbox, options=options, results={"p": found}), sandbox)
    assert later.env["PYTHONPATH"] == f"{sandbox.work_dir}/a"


DEV_CONTAINER = """{
  // a comment, and a comma too many
  "image": "elsewhere/image:1",
  "features": {"ghcr.io/devcontainers/features/rust:1": {}},
  "postCreateCommand": "make deps",
}"""


def test_the_command_of_a_dev_container_is_the_install() -> None:
    files = {**PYTEST, ".devcontainer/devcontainer.json": DEV_CONTAINER}
    assert detected(files).install == ("sh", "-ec", "make deps")


def test_features_and_image_of_a_dev_container_are_refused_by_name() -> None:
    found = detected({**PYTEST, ".devcontainer/devcontainer.json": DEV_CONTAINER})
    assert "features/rust:1" in str(found)
    assert "image: not used" in str(found)


def test_without_a_network_the_table_goes_before_a_dev_container() -> None:
    files = {**PYTEST, ".devcontainer/devcontainer.json": DEV_CONTAINER}
    assert detected(files, online=False).install != ("sh", "-ec", "make deps")


def test_a_tool_is_looked_up_by_the_package_that_has_it() -> None:
    assert package_of("gcc") is None  # the package has the same name
    assert package_of("javac") == "default-jdk-headless"


def test_every_row_can_test_something() -> None:
    assert [row.name for row in ecosystems() if not row.ways] == ["python"]
