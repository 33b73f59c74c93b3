"""Files in the folder of an attempt, which its code may have made into anything."""

import os
from pathlib import Path

import pytest

from holdfast.worker.running.regular_file import open_regular, read_regular


def test_a_file_is_read_up_to_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"four")
    assert read_regular(path, 4) == b"four"
    with pytest.raises(OSError, match="it is over 3 bytes"):
        read_regular(path, 3)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "device"])
def test_what_is_no_file_is_neither_read_nor_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "elsewhere").touch()
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path = Path("/dev/zero")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError) as refused:
        open_regular(path)
    assert not isinstance(refused.value, FileNotFoundError)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "file")
