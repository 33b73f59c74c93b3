"""Read files in the folder of an attempt with suspicion: its code may have put anything there."""

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a file to be read. Raises OSError: also if it is a link, a folder, a pipe, a device."""
    # Neither a pipe, which would be waited for, nor a link to something without an end.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError("it is not a file")
    return open(fd, "rb")


def read_regular(path: Path, bytes_max: int) -> bytes:
    """Read a whole file. Raises OSError: also if it is longer than that, or no file."""
    with open_regular(path) as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(f"it is over {bytes_max} bytes")
    return content
