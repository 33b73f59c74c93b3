"""The page lists every planted bug, with what it would do and what turned red."""

from pathlib import Path

from mutants.catalogue import MUTATIONS
from mutants.page import PAGE, compose, describe_red, read_found, write_page
from mutants.trial import Result

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_that_of_the_catalogue() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    found = read_found(page)
    assert page == compose(MUTATIONS, found), "./run mutants --page writes it anew"
    assert found.keys() == {mutation.name for mutation in MUTATIONS}


def test_a_page_keeps_what_was_found_by_those_that_were_not_tried(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    one, two = MUTATIONS[:2]
    write_page(page, [Result(one, ("tests/a.py::test_b[1]", "tests/a.py::test_b[2]"), 2.4)])
    write_page(page, [Result(two, ("tests/a.py::test_c",), 3.5)])
    found = read_found(page.read_text())
    assert found[one.name] == ("`test_b`", "2")
    assert found[two.name] == ("`test_c`", "4")


def test_of_many_tests_the_first_are_named() -> None:
    assert describe_red([f"test_{n}" for n in range(5)]) == "`test_0`, `test_1` and 3 more"
    assert describe_red([]) == "nothing"
