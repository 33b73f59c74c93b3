"""Files that a worker and a shim share: whole or not there."""

import json
from pathlib import Path

import pytest

from holdfast.worker.processes.shim_folder import write_json


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_file_is_private_and_replaces_what_was_there(tmp_path: Path, is_synced: bool) -> None:
    path = tmp_path / "file.json"
    for content in ({"a": [1, "ü"]}, None):
        write_json(str(path), content, is_synced=is_synced)
        assert json.loads(path.read_text()) == content
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_json(str(path), "old")
    with pytest.raises(TypeError):
        write_json(str(path), object())
    assert json.loads(path.read_text()) == "old"
