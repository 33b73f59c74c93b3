"""Follow the output file of an attempt while it grows."""

import logging
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.worker.processes.shim_folder import write_json
from holdfast.worker.running.regular_file import open_regular, read_regular

log = logging.getLogger("holdfast.shipping")

STRETCH_BYTES_MAX = 64 * 1024
LOG_BYTES_MAX = 16 * 2**20
SENT_BYTES_MAX = 1000


class Sent(msgspec.Struct, frozen=True):
    """How far a file has been given: in bytes of the log, and of the file itself."""

    given: Annotated[int, Meta(ge=0)] = 0
    position: Annotated[int, Meta(ge=0)] = 0
    is_full: bool = False


class LogTail:
    """Give what was written to a file in pieces, each once, up to a limit.

    With a file for it, whoever follows the output next goes on after what was sent.
    """

    def __init__(
        self,
        path: Path,
        *,
        chunk_bytes_max: int = STRETCH_BYTES_MAX,
        total_bytes_max: int = LOG_BYTES_MAX,
        sent_file: Path | None = None,
    ) -> None:
        self._path = path
        self._chunk_bytes_max = chunk_bytes_max
        self._total_bytes_max = total_bytes_max
        self._sent_file = sent_file
        sent = Sent() if sent_file is None else _read_sent(sent_file)
        self._given = sent.given  # bytes so far: the offset of the next piece
        self._position = sent.position  # the same within the file, until that is truncated
        self._last = b"\n"
        self._is_full = sent.is_full

    def read_new(self) -> tuple[int, bytes] | None:
        """Read the next piece and its offset; None when there is nothing new for now.

        A piece ends between two characters; half a character waits for one more call.
        """
        if self._is_full:
            return None
        left = self._total_bytes_max - self._given
        piece = self._read(min(self._chunk_bytes_max, max(left, 1)))
        if not piece:
            return None
        if left <= 0:
            self._is_full = True
            piece = describe_limit(self._total_bytes_max, self._last)
        self._last = piece[-1:]
        offset = self._given
        self._given += len(piece)
        self._position += len(piece)
        return offset, piece

    def note_sent(self) -> None:
        """Write down how far this was given; if that fails, it is sent once more."""
        if self._sent_file is None:
            return
        sent = Sent(self._given, self._position, self._is_full)
        try:
            write_json(str(self._sent_file), msgspec.to_builtins(sent))
        except OSError as error:
            log.warning("how far %s was sent is not noted: %s", self._path, error)

    def _read(self, bytes_max: int) -> bytes:
        try:
            with open_regular(self._path) as file:
                if file.seek(0, 2) < self._position:  # a command wrote to `> /dev/stdout`
                    self._position = 0
                file.seek(self._position)
                piece = file.read(bytes_max)
        except FileNotFoundError:
            return b""
        return piece[: whole_characters(piece)] or piece


def _read_sent(path: Path) -> Sent:
    """Read how far a log was sent; from its beginning on, if that is not known."""
    try:
        return msgspec.json.decode(read_regular(path, SENT_BYTES_MAX), type=Sent)
    except FileNotFoundError:
        return Sent()
    except (OSError, msgspec.DecodeError) as error:
        log.warning("how far the output was sent is not known: %s", error)
        return Sent()


def describe_limit(bytes_max: int, last: bytes) -> bytes:
    """Say, in a line after the last byte that is kept, that there was more."""
    line = b"[output over %d bytes was dropped]\n" % bytes_max
    return line if last == b"\n" else b"\n" + line


def whole_characters(text: bytes) -> int:
    """Count the bytes up to the last UTF-8 character that may lack its end."""
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        if byte & 0b1100_0000 == 0b1100_0000:  # the first byte of a character of several
            wanted = 2 if byte < 0b1110_0000 else 3 if byte < 0b1111_0000 else 4
            return len(text) - back if back < wanted else len(text)
        if byte < 0b1000_0000:
            break
    return len(text)
