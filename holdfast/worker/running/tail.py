"""Follow the output file of an attempt while it grows."""

import logging
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta

from holdfast.model.work.log_limits import HEAD_BYTES, TAIL_BYTES
from holdfast.worker.processes.shim_folder import write_json
from holdfast.worker.running.regular_file import open_regular, read_regular

log = logging.getLogger("holdfast.shipping")

STRETCH_BYTES_MAX = 64 * 1024
# Beyond its head a log is sent in larger pieces, but not faster than one after each pause.
LONG_STRETCH_BYTES_MAX = 256 * 1024
SENT_BYTES_MAX = 1000


class Sent(msgspec.Struct, frozen=True):
    """How far a file has been given: in bytes of the log, and of the file itself."""

    given: Annotated[int, Meta(ge=0)] = 0
    position: Annotated[int, Meta(ge=0)] = 0


class LogTail:
    """Give what was written to a file in pieces, each once.

    Whatever is beyond the head and too far from the end is passed over: a server keeps both ends
    of a log. With a file for it, whoever follows the output next goes on after what was sent.
    """

    def __init__(
        self,
        path: Path,
        *,
        chunk_bytes_max: int = STRETCH_BYTES_MAX,
        head_bytes: int = HEAD_BYTES,
        tail_bytes: int = TAIL_BYTES,
        sent_file: Path | None = None,
    ) -> None:
        self._path = path
        self._chunk_bytes_max = chunk_bytes_max
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._sent_file = sent_file
        sent = Sent() if sent_file is None else _read_sent(sent_file)
        self._given = sent.given  # bytes so far: the offset of the next piece
        self._position = sent.position  # the same within the file, until that is truncated

    @property
    def is_long(self) -> bool:
        """Tell whether the head has been given: what comes now may be passed over."""
        return self._given >= self._head_bytes

    def read_new(self) -> tuple[int, bytes] | None:
        """Read the next piece and its offset; None when there is nothing new for now.

        A piece ends between two lines or two characters; half a character waits for one more call.
        """
        try:
            with open_regular(self._path) as file:
                piece = self._read(file)
        except FileNotFoundError:
            return None
        if not piece:
            return None
        offset = self._given
        self._given += len(piece)
        self._position += len(piece)
        return offset, piece

    def note_sent(self) -> None:
        """Write down how far this was given; if that fails, it is sent once more."""
        if self._sent_file is None:
            return
        sent = Sent(self._given, self._position)
        try:
            write_json(str(self._sent_file), msgspec.to_builtins(sent))
        except OSError as error:
            log.warning("how far %s was sent is not noted: %s", self._path, error)

    def _read(self, file: BinaryIO) -> bytes:
        bytes_max = LONG_STRETCH_BYTES_MAX if self.is_long else self._chunk_bytes_max
        size = file.seek(0, 2)
        if size < self._position:  # a command wrote to `> /dev/stdout`
            self._position = 0
        surplus = size - self._position - self._tail_bytes
        is_passed_over = self.is_long and surplus > 0
        if is_passed_over:
            self._pass_over(surplus)
        file.seek(self._position)
        piece = file.read(bytes_max)
        if is_passed_over and (begin := piece.find(b"\n") + 1) < len(piece):
            self._pass_over(begin)
            piece = piece[begin:]
        if len(piece) == bytes_max:
            return cut_piece(piece)
        return piece[: whole_characters(piece)] or piece

    def _pass_over(self, byte_count: int) -> None:
        self._given += byte_count
        self._position += byte_count


def _read_sent(path: Path) -> Sent:
    """Read how far a log was sent; from its beginning on, if that is not known."""
    try:
        return msgspec.json.decode(read_regular(path, SENT_BYTES_MAX), type=Sent)
    except FileNotFoundError:
        return Sent()
    except (OSError, msgspec.DecodeError) as error:
        log.warning("how far the output was sent is not known: %s", error)
        return Sent()


def cut_piece(piece: bytes) -> bytes:
    """Cut a piece that more follows after its last line, or else after its last character."""
    return piece[: piece.rfind(b"\n") + 1 or whole_characters(piece)] or piece


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
