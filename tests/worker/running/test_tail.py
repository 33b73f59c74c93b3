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


def test_output_over_the_limit_is_dropped_with_one_word_about_it(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    tail = LogTail(path, chunk_bytes_max=4, total_bytes_max=6)
    path.write_bytes(b"012345")
    assert read_all(tail) == [(0, b"0123"), (4, b"45")]
    append(path, b"67")
    assert read_all(tail) == [(6, b"\n[output over 6 bytes was dropped]\n")]
    append(path, b"89")
    assert tail.read_new() is None


def test_the_word_about_dropped_output_stands_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"0\n1")
    pieces = read_all(LogTail(path, total_bytes_max=2))
    assert pieces == [(0, b"0\n"), (2, b"[output over 2 bytes was dropped]\n")]


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


def test_a_log_that_is_full_stays_full(tmp_path: Path) -> None:
    path, sent = tmp_path / "output.log", tmp_path / "output.sent"
    path.write_bytes(b"one\ntwo\n")
    first = LogTail(path, total_bytes_max=4, sent_file=sent)
    assert len(read_all(first)) == 2
    first.note_sent()
    assert LogTail(path, total_bytes_max=4, sent_file=sent).read_new() is None


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
