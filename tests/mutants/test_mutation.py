"""A mutation changes what it says, and refuses where it does not find that exactly once."""

from pathlib import Path

import pytest

from mutants.mutation import Misfit, mutate, mutation

CODE = "def add(a, b):\n    return a + b\n"


def write(folder: Path, text: str) -> Path:
    file = folder / "holdfast" / "sums.py"
    file.parent.mkdir()
    file.write_text(text)
    return file


def test_two_edits_of_one_file_are_both_made_and_nothing_is_written(tmp_path: Path) -> None:
    file = write(tmp_path, CODE)
    planted = mutation(
        "m", "Wrong.", ("sums.py", "a + b", "a - b"), ("sums.py", "a - b", "b - a"), red=("t.py",)
    )
    assert mutate(planted, tmp_path) == {file: CODE.replace("a + b", "b - a")}
    assert planted.red == ("tests/t.py",)
    assert file.read_text() == CODE


@pytest.mark.parametrize(("text", "count"), [("return 1\n", 0), (CODE + CODE, 2)])
def test_a_text_that_is_not_there_exactly_once_is_refused(
    tmp_path: Path, text: str, count: int
) -> None:
    write(tmp_path, text)
    planted = mutation("m", "Wrong.", ("sums.py", "a + b", "a - b"), red=("t.py",))
    with pytest.raises(Misfit, match=rf"m: 'a \+ b' is {count} times in holdfast/sums.py"):
        mutate(planted, tmp_path)


def test_a_file_that_has_moved_is_named(tmp_path: Path) -> None:
    planted = mutation("m", "Wrong.", ("gone.py", "a", "b"), red=("t.py",))
    with pytest.raises(Misfit, match=r"there is no holdfast/gone\.py"):
        mutate(planted, tmp_path)


@pytest.mark.parametrize(
    ("file", "shapes"),
    [
        ("store/schema/functions/turn.sql", True),
        ("store/migrate.py", True),
        ("embedded/cluster.py", True),
        ("store/sql/work/leases.sql", False),
        ("rules/retry.py", False),
    ],
)
def test_what_shapes_databases_is_known_by_its_place(file: str, shapes: bool) -> None:
    planted = mutation("m", "Wrong.", ("sums.py", "a", "b"), (file, "a", "b"), red=("t.py",))
    assert planted.shapes_databases is shapes
