"""Names that a home draws at first use, by many at once."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from flows.runs.home import home_owner, read_or_create


def test_of_many_that_come_first_one_draws_the_name_for_all(tmp_path: Path) -> None:
    start = Barrier(8)

    def draw(number: int) -> str:
        start.wait()
        return read_or_create(tmp_path / "home" / "name", f"name {number}" * 1_000)

    with ThreadPoolExecutor(8) as pool:
        drawn = set(pool.map(draw, range(8)))
    assert drawn == {(tmp_path / "home" / "name").read_text()}
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["name"]


def test_it_stays_and_is_for_this_user_only(tmp_path: Path) -> None:
    assert home_owner(tmp_path) == home_owner(tmp_path)
    assert stat.S_IMODE((tmp_path / "owner").stat().st_mode) == 0o600
