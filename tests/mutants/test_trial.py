"""Bugs are planted one by one, and it is said of each whether its tests have seen it."""

from pathlib import Path

from mutants.checkout import Verdicts
from mutants.mutation import Mutation, mutation
from mutants.trial import Result, check_sound, find_unsound, judge, try_all
from tests.mutants.small_checkout import make_checkout

ADDS, SUM, ARGUMENTS = (
    f"test_sums.py::{name}"
    for name in ("test_it_adds", "test_it_is_a_sum", "test_it_has_arguments")
)


def plant(name: str, new: str, *red: str, survives: str = "") -> Mutation:
    edit = ("sums.py", "return a + b", new)
    return mutation(name, "It is wrong.", edit, red=red, survives=survives)


def test_each_is_judged_by_its_own_tests(tmp_path: Path) -> None:
    root = make_checkout(tmp_path)
    planted = [
        plant("caught", "return a - b", ADDS, SUM),
        plant("half", "return 2", ADDS, SUM),
        plant("alike", "return b + a", ADDS, survives="Sums commute."),
        plant("listed-in-vain", "return a - b", ADDS, survives="It is said to."),
    ]
    results = list(try_all(root, planted, seconds_max=300.0))
    assert [result.mutation.name for result in results] == [each.name for each in planted]
    caught, half, alike, in_vain = results
    assert (caught.verdict, len(caught.failed)) == ("caught", 2)
    assert half.problem == "it survives tests/test_sums.py::test_it_adds"
    assert alike.verdict == "survives, as listed"
    assert in_vain.problem == "it is caught now; take the reason away why it survives"
    assert (root / "holdfast/sums.py").read_text() == "def add(a, b):\n    return a + b\n"


def test_one_failure_is_enough_where_one_entry_has_to_turn_red(tmp_path: Path) -> None:
    planted = [
        plant("one", "return 2.5", "test_sums.py"),
        plant("each", "return 2.5", ADDS, SUM),
    ]
    one, each = try_all(make_checkout(tmp_path), planted, seconds_max=300.0)
    assert (one.verdict, len(one.failed)) == ("caught", 1)
    assert (each.verdict, len(each.failed)) == ("caught", 2)


def test_after_its_time_nothing_begins(tmp_path: Path) -> None:
    planted = plant("late", "return a - b", ADDS)
    [result] = try_all(make_checkout(tmp_path), [planted], seconds_max=0.0)
    assert result == Result(planted, (), 0.0, "there was no time left for it")


def test_tests_have_to_be_green_before_anything_is_planted(tmp_path: Path) -> None:
    root = make_checkout(tmp_path)
    planted = [plant("caught", "return a - b", ADDS, ARGUMENTS)]
    assert check_sound(root, planted) == ""
    (root / "holdfast/sums.py").write_text("def add(a, b):\n    return 7\n")
    red = "red without any mutation: tests/test_sums.py::test_it_adds"
    assert check_sound(root, planted) == red


def test_a_selection_of_which_nothing_runs_is_named() -> None:
    planted = [plant("m", "return 7", ADDS, SUM)]
    found = Verdicts(passed=("tests/test_sums.py::test_it_adds",))
    assert find_unsound(planted, found) == "nothing ran of tests/test_sums.py::test_it_is_a_sum"
    assert find_unsound(planted, Verdicts(problem="no disk")) == "no disk"


def test_what_keeps_tests_from_running_is_no_catch() -> None:
    assert judge(plant("m", "return 7", ADDS), Verdicts(problem="no disk")) == "no disk"
