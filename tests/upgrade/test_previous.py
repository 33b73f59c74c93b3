"""The version before this one is found, and what to do where it is not."""

from pathlib import Path

import pytest

from tests.upgrade.previous import COMMIT, PreviousMissing, take_out_previous


def test_the_previous_version_is_taken_out_whole(tmp_path: Path) -> None:
    folder = take_out_previous(tmp_path)
    assert (folder / "holdfast" / "store" / "schema" / "tables" / "0001_clock.sql").exists()
    assert not (folder / "tests").exists()


def test_a_checkout_without_history_says_what_it_lacks(tmp_path: Path) -> None:
    wanted = rf"{COMMIT}.*git fetch --unshallow"
    with pytest.raises(PreviousMissing, match=wanted):
        take_out_previous(tmp_path / "any", root=tmp_path)
