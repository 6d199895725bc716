"""`python -m benchmarks.field`: two runs of `harness run fix-tests` on each project.

Prints what each run took and its phases in seconds, or why it was not green. A run that ends
before an agent is asked, with exit code 2 or 3, says what to do: it is counted by itself.
"""

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import BaseModel

from benchmarks.field.fetch import FieldProject, NotFetched, field_projects, make_repository
from benchmarks.field.measure import FieldRun, fix_tests, harness
from flows.config.settings import Settings
from flows.services import prefect_server


class FieldResult(BaseModel, frozen=True, extra="forbid"):
    """The runs of one project; if there are none, `not_fetched` says why."""

    name: str
    version: str
    language: str
    runs: tuple[FieldRun, ...] = ()
    not_fetched: str = ""

    @property
    def outcome(self) -> str:
        """The first run that is not green decides."""
        if not self.runs:
            return "not fetched"
        return next((run.outcome for run in self.runs if run.outcome != "green"), "green")


def main() -> None:
    """Run the projects that are asked for, or all."""
    parser = ArgumentParser(prog="python -m benchmarks.field", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="one of the projects")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="add a line for each project; projects that have a line are not run again",
    )
    options = parser.parse_args()
    done = _read(options.json) if options.json else []
    chosen = [one for one in field_projects() if not options.only or one.name in options.only]
    names = {result.name for result in done}
    for result in _results([one for one in chosen if one.name not in names]):
        done.append(result)
        if options.json:
            with options.json.open("a") as file:
                file.write(f"{result.model_dump_json()}\n")
    _print_sum([result for result in done if result.name in {one.name for one in chosen}])


def _results(projects: Collection[FieldProject]) -> Iterator[FieldResult]:
    if not projects:
        return
    with TemporaryDirectory(prefix="harness-field-") as folder:
        home = Path(folder, "home")
        server = prefect_server.server_daemon(Settings(home=home, server_port=0))
        api = server.up().url
        try:
            for number, project in enumerate(projects, 1):
                print(f"{number}/{len(projects)} {project.name} {project.version}", flush=True)
                yield _both(project, home, api)
        finally:
            for command in (("env", "prune", "--all"), ("down",)):
                harness(command, Path(folder), {"HARNESS_HOME": str(home)})


def _both(project: FieldProject, home: Path, api: str) -> FieldResult:
    """Run it twice; print a line for each run."""
    result = FieldResult(name=project.name, version=project.version, language=project.language)
    try:
        repository = make_repository(project, home.parent / f"of-{project.name}")
    except NotFetched as error:
        print(f"  {project.language:<8}not fetched: {error}", flush=True)
        return result.model_copy(update={"not_fetched": str(error)})
    runs: list[FieldRun] = []
    for which in ("first", "second"):
        runs.append(fix_tests(project, repository, home, api))
        print(f"  {project.language:<8}{which:<7}{runs[-1]}", flush=True)
    return result.model_copy(update={"runs": tuple(runs)})


def _read(file: Path) -> list[FieldResult]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [FieldResult.model_validate_json(line) for line in lines]


def _print_sum(results: Collection[FieldResult]) -> None:
    counts = Counter(result.outcome for result in results)
    fetched = [result.runs for result in results if result.runs]
    installs = [runs[1].phases.get("install", 0.0) for runs in fetched]
    print(
        f"{counts['green']} of {len(fetched)} green ({dict(counts)}); "
        f"the slowest second install took {max(installs, default=0.0):.2f} s"
    )


if __name__ == "__main__":
    main()
