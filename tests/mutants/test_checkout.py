"""Copies of a checkout: what is copied, what is put back, and what a run of tests says."""

import subprocess
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from mutants.checkout import Verdicts, changed, copied, end_runs, is_of, read_report, run_tests
from tests.mutants.small_checkout import SMALL, make_checkout

SUMS = (f"{SMALL}::test_it_adds", f"{SMALL}::test_it_is_a_sum[2]")
REPORT = """<testsuites><testsuite>
<testcase classname="tests.a.test_b" name="test_good"/>
<testcase classname="tests.a.test_b" name="test_bad[1-x.y]"><failure message="no"/></testcase>
<testcase classname="tests.a.test_b" name="test_left"><skipped/></testcase>
{more}
</testsuite></testsuites>"""


def test_changes_and_new_files_are_copied_and_what_git_ignores_is_not(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "mine")
    (root / "holdfast/sums.py").write_text("changed = True\n")
    (root / "new.py").write_text("new = True\n")
    (root / "ignored.log").write_text("noise\n")
    (root / "holdfast/dashboard").mkdir()
    (root / "holdfast/dashboard/index.html").write_text("built\n")
    with copied(root) as copy:
        assert (copy / "holdfast/sums.py").read_text() == "changed = True\n"
        assert (copy / "new.py").exists()
        assert (copy / "holdfast/dashboard/index.html").exists()
        assert not (copy / "ignored.log").exists()
        assert not (copy / ".git").exists()
    assert not copy.exists()


def test_what_is_changed_is_put_back_and_no_bytecode_of_it_stays(tmp_path: Path) -> None:
    file = tmp_path / "sums.py"
    stale = tmp_path / "__pycache__" / "sums.cpython-311.pyc"
    stale.parent.mkdir()
    file.write_text("one")

    def use_and_interrupt() -> None:
        with changed({file: "two"}):
            stale.write_text("compiled")
            assert file.read_text() == "two"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use_and_interrupt()
    assert file.read_text() == "one"
    assert not stale.exists()


def test_tests_of_a_copy_run_the_code_of_the_copy(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "mine")
    with copied(root) as copy:
        found = run_tests(copy, [SMALL])
        assert found == Verdicts(passed=(*SUMS, f"{SMALL}::test_it_has_arguments"))
        with changed({copy / "holdfast/sums.py": "def add(a, b):\n    return a - b\n"}):
            found = run_tests(copy, [SMALL])
        assert found.failed == SUMS


def test_what_cannot_be_run_is_no_red_test(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "mine")
    with copied(root) as copy:
        with changed({copy / "holdfast/sums.py": "def add(\n"}):
            assert "pytest ended with 2" in run_tests(copy, [SMALL]).problem
        assert "pytest ended with 4" in run_tests(copy, ["tests/none.py"]).problem


def test_a_run_without_end_has_one(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "mine")
    endless = "def add(a, b):\n    while True:\n        pass\n"
    with copied(root) as copy, changed({copy / "holdfast/sums.py": endless}):
        found = run_tests(copy, [SMALL], seconds_max=2.0)
    assert found.problem == "the tests took more than 2 s"


def test_who_leaves_early_ends_what_runs(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "mine")
    endless = "def add(a, b):\n    while True:\n        pass\n"
    with (
        copied(root) as copy,
        changed({copy / "holdfast/sums.py": endless}),
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(run_tests, copy, [SMALL])
        while not running.done():
            end_runs()
            wait([running], timeout=0.1)
        assert "pytest ended with -9" in running.result().problem


def test_a_report_tells_red_from_green() -> None:
    found = read_report(REPORT.format(more=""))
    assert found.passed == ("tests/a/test_b.py::test_good",)
    assert found.failed == ("tests/a/test_b.py::test_bad[1-x.y]",)


@pytest.mark.parametrize(("when", "is_red"), [("setup", False), ("teardown", True)])
def test_what_fails_before_a_test_is_none_and_what_fails_after_it_is(
    when: str, is_red: bool
) -> None:
    error = f'<error message="failed on {when} with no database"/>'
    case = f'<testcase classname="tests.a.test_b" name="test_late">{error}</testcase>'
    found = read_report(REPORT.format(more=case))
    assert ("tests/a/test_b.py::test_late" in found.failed) == is_red
    assert bool(found.problem) != is_red


def test_the_group_of_a_test_is_no_part_of_its_name() -> None:
    cases = [
        f'<testcase classname="tests.a.test_c" name="{n}@one"/>' for n in ("test_x", "test_y[a@b]")
    ]
    found = read_report(REPORT.format(more="".join(cases)))
    assert found.passed[1:] == ("tests/a/test_c.py::test_x", "tests/a/test_c.py::test_y[a@b]")


def test_a_test_is_of_its_file_and_of_its_name() -> None:
    assert is_of("tests/a.py::test_b", "tests/a.py")
    assert is_of("tests/a.py::test_b[1]", "tests/a.py::test_b")
    assert not is_of("tests/a.py::test_bc", "tests/a.py::test_b")


def test_git_is_asked_and_not_the_folder(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError), copied(tmp_path):
        pass
