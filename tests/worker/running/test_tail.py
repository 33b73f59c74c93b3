"""Following an output file."""

import os
from pathlib import Path

import pytest

from holdfast.worker.running.tail import LogTail


def read_all(tail: LogTail) -> list[tuple[int, bytes]]:
    """Read until there is nothing new."""
    pieces: list[tuple[int, bytes]] = []
    for _ in range(10_000):
        piece = tail.read_new()
        if piece is None:
            return pieces
        pieces.append(piece)
    raise AssertionError("there is no end to it")


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_a_file_that_does_not_exist_yet_has_nothing_new(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    tail = LogTail(path)
    assert tail.read_new() is None
    path.write_bytes(b"hello\n")
    assert tail.read_new() == (0, b"hello\n")


def test_each_byte_is_given_once(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    tail = LogTail(path)
    append(path, b"one\n")
    assert tail.read_new() == (0, b"one\n")
    assert tail.read_new() is None
    append(path, b"two\n")
    assert read_all(tail) == [(4, b"two\n")]


def test_pieces_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"0123456789")
    assert read_all(LogTail(path, chunk_bytes_max=4)) == [(0, b"0123"), (4, b"4567"), (8, b"89")]


def test_no_piece_ends_within_a_character(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    text = "aé€𝄞ö" * 50
    path.write_text(text, encoding="utf-8")
    for size in range(4, 40):
        pieces = read_all(LogTail(path, chunk_bytes_max=size))
        assert "".join(piece.decode() for _, piece in pieces) == text
        assert all(len(piece) <= size for _, piece in pieces)


@pytest.mark.parametrize("text", ["a", "aé", "a€", "a𝄞"])
def test_a_whole_character_waits_for_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "output.log"
    path.write_text(text, encoding="utf-8")
    assert LogTail(path).read_new() == (0, text.encode())


def test_half_a_character_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    tail = LogTail(path)
    first, second = b"caf\xc3", b"\xa9\n"
    append(path, first)
    assert tail.read_new() == (0, b"caf")
    append(path, second)
    assert tail.read_new() == (3, b"\xc3\xa9\n")


def test_what_is_not_text_passes_through(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    content = bytes(range(256)) * 3 + b"\xc3"
    path.write_bytes(content)
    for size in (1, 2, 3, 5, 100):
        pieces = read_all(LogTail(path, chunk_bytes_max=size))
        assert b"".join(piece for _, piece in pieces) == content


def numbered(count: int, start: int = 0) -> bytes:
    """Write lines of ten bytes, each with its own offset."""
    return b"".join(b"%09d\n" % (10 * n) for n in range(start, start + count))


def test_both_ends_of_a_long_file_are_given_and_the_end_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    tail = LogTail(path, chunk_bytes_max=25, head_bytes=50, tail_bytes=30)
    path.write_bytes(numbered(5))
    assert read_all(tail) == [(0, numbered(2)), (20, numbered(2, 2)), (40, numbered(1, 4))]
    assert tail.is_long
    append(path, numbered(3, 5))  # no more than the tail: nothing is passed over
    assert read_all(tail) == [(50, numbered(3, 5))]
    append(path, numbered(100, 8))
    # The tail begins with a whole line, behind where it would begin by its length.
    assert read_all(tail) == [(1060, numbered(2, 106))]
    append(path, b"x" * 100)
    assert read_all(tail) == [(1150, b"x" * 30)]


def test_lines_are_not_cut_where_it_can_be_avoided(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"one\ntwo\nlonger than a piece\n")
    assert read_all(LogTail(path, chunk_bytes_max=10)) == [
        (0, b"one\ntwo\n"),
        (8, b"longer tha"),
        (18, b"n a piece\n"),
    ]


def test_a_truncated_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    tail = LogTail(path)
    path.write_bytes(b"a long first line\n")
    assert tail.read_new() == (0, b"a long first line\n")
    path.write_bytes(b"short\n")
    assert tail.read_new() == (18, b"short\n")
    append(path, b"more\n")
    assert tail.read_new() == (24, b"more\n")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "output.log")
    with pytest.raises(OSError, match="is not a file"):
        LogTail(tmp_path / "output.log").read_new()


def test_whoever_follows_next_goes_on_after_what_was_sent(tmp_path: Path) -> None:
    path, sent = tmp_path / "output.log", tmp_path / "output.sent"
    path.write_bytes(b"one\ntwo\n")
    first = LogTail(path, chunk_bytes_max=4, sent_file=sent)
    assert first.read_new() == (0, b"one\n")
    first.note_sent()
    assert first.read_new() == (4, b"two\n")  # and nobody notes that it was sent
    path.write_bytes(b"one\ntwo\nthree\n")
    assert read_all(LogTail(path, sent_file=sent)) == [(4, b"two\nthree\n")]
    path.write_bytes(b"new\n")  # truncated, and shorter than what was given
    again = LogTail(path, sent_file=sent)
    assert again.read_new() is None
    assert read_all(LogTail(path)) == [(0, b"new\n")]


def test_what_was_passed_over_stays_so_for_whoever_follows_next(tmp_path: Path) -> None:
    path, sent = tmp_path / "output.log", tmp_path / "output.sent"
    path.write_bytes(numbered(10))
    first = LogTail(path, head_bytes=0, tail_bytes=20, sent_file=sent)
    assert read_all(first) == [(90, numbered(1, 9))]
    first.note_sent()
    append(path, numbered(1, 10))
    assert read_all(LogTail(path, sent_file=sent)) == [(100, numbered(1, 10))]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"given": -1}', b"x" * 2000])
def test_a_note_that_makes_no_sense_is_no_note(tmp_path: Path, content: bytes) -> None:
    path, sent = tmp_path / "output.log", tmp_path / "output.sent"
    path.write_bytes(b"one\n")
    sent.write_bytes(content)
    assert read_all(LogTail(path, sent_file=sent)) == [(0, b"one\n")]
    sent.unlink()
    sent.mkdir()
    tail = LogTail(path, sent_file=sent)
    assert read_all(tail) == [(0, b"one\n")]
    tail.note_sent()
