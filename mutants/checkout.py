"""A copy of the checkout, in which bugs may be planted: the working tree is never touched."""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.prepared import VARIABLE

# What git does not know of, and tests of servers want to find.
BUILT = "holdfast/dashboard"
RUN_SECONDS_MAX = 180.0

_RUNNING: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How the tests of one run ended; `problem` is why there is nothing to go by."""

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    problem: str = ""


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """Copy what git lists of a checkout, changes and new files too, for the time of a block."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True, timeout=60,
    ).stdout.split("\0")  # fmt: skip
    with TemporaryDirectory(prefix="holdfast-mutants-", ignore_cleanup_errors=True) as name:
        # Programs that run as other users have to find their code in it.
        Path(name).chmod(0o755)
        copy = Path(name) / "checkout"
        for file in filter(None, listed):
            if (root / file).is_file():
                (copy / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / file, copy / file)
        if (root / BUILT).is_dir():
            shutil.copytree(root / BUILT, copy / BUILT, dirs_exist_ok=True)
        yield copy


@contextmanager
def changed(files: Mapping[Path, str]) -> Iterator[None]:
    """Change files for the time of a block."""
    before = {path: path.read_text(encoding="utf-8") for path in files}
    try:
        _write(files)
        yield
    finally:
        _write(before)


def _write(files: Mapping[Path, str]) -> None:
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        # Bytecode is as good as its source by second and size, and both may stay the same.
        for stale in path.parent.glob(f"__pycache__/{path.stem}.*"):
            stale.unlink()


def end_runs() -> None:
    """End all runs of tests that are under way; their own watchdogs end what they have started."""
    for process in list(_RUNNING):
        process.kill()


def run_tests(
    checkout: Path,
    tests: Sequence[str],
    *,
    at_once: int = 0,
    seconds_max: float = RUN_SECONDS_MAX,
    first_only: bool = False,
    cluster: Path | None = None,
) -> Verdicts:
    """Run tests of a checkout with the packages of this Python; a bound ends what hangs.

    A cluster is one that was prepared for them: they make none of their own.
    """
    report = checkout.parent / "report.xml"
    report.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "pytest", f"-n{at_once}", "-p", "no:cacheprovider"),
        *("--tb=line", f"--junitxml={report}", *(["-x"] if first_only else []), *tests),
    ]
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    variables["PYTHONPATH"] = str(checkout)
    if cluster is not None:
        variables[VARIABLE] = str(cluster)
    with subprocess.Popen(
        command, cwd=checkout, env=variables,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as process:  # fmt: skip
        _RUNNING.add(process)
        try:
            output, _ = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            return Verdicts(problem=f"the tests took more than {seconds_max:.0f} s")
        finally:
            _RUNNING.discard(process)
            process.kill()
    if process.returncode not in (0, 1) or not report.exists():
        said = [line for line in output.splitlines() if line.strip()]
        return Verdicts(problem=f"pytest ended with {process.returncode}: {' / '.join(said[-3:])}")
    return read_report(report.read_text(encoding="utf-8", errors="replace"))


def read_report(text: str) -> Verdicts:
    """Read a report of pytest: which tests passed and which failed, and what kept it from both."""
    passed: list[str] = []
    failed: list[str] = []
    for case in ElementTree.fromstring(text).iter("testcase"):
        # Where several run at once, the group of a test stands behind its name.
        name = re.sub(r"@\w+$", "", case.get("name", ""))
        test = f"{case.get('classname', '').replace('.', '/')}.py::{name}"
        errors = [error.get("message", "") for error in case.iter("error")]
        # After a test, fixtures look whether all is in order: that is a part of it.
        if any(not message.startswith("failed on teardown") for message in errors):
            return Verdicts(problem=f"{test} could not begin: {errors[0][:200]}")
        if errors or case.find("failure") is not None:
            failed.append(test)
        elif case.find("skipped") is None:
            passed.append(test)
    return Verdicts(tuple(passed), tuple(failed))


def is_of(test: str, entry: str) -> bool:
    """Tell whether a test is one of those that an entry of a selection names."""
    return test == entry or test.startswith((f"{entry}::", f"{entry}["))
