"""What `import holdfast` gives, and what it does not cost."""

import subprocess
import sys
from importlib import resources

import pytest

import holdfast as hf
from holdfast import errors


@pytest.mark.parametrize("name", hf.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(hf, name) is not None
    assert name in dir(hf)


def test_names_are_those_of_their_homes() -> None:
    assert hf.LeaseConflictError is errors.LeaseConflict
    assert hf.TaskFailed is errors.TaskFailed
    assert hf.fenced.__name__ == "holdfast.fenced"
    assert hf.testing.__name__ == "holdfast.testing"


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'nothing'"):
        hf.nothing  # noqa: B018


def test_type_checkers_are_told_that_there_are_types() -> None:
    assert (resources.files("holdfast") / "py.typed").is_file()


def test_what_is_not_used_is_not_imported() -> None:
    program = "import sys, holdfast; holdfast.Invalid; print(len(sys.modules.keys() & {heavy}))"
    heavy = {"aiohttp", "asyncpg", "msgspec", "asyncio", "pytest"}
    told = subprocess.run(
        [sys.executable, "-c", program.format(heavy=heavy)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert told.stdout == "0\n"
