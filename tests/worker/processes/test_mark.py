"""The mark of an attempt."""

from holdfast.worker.processes.mark import mark_of


def test_a_mark_is_always_the_same_and_shows_nothing_of_its_token() -> None:
    token = "0190a5b2-7c11-7d4e-9f00-1c2d3e4f5a6b"
    assert mark_of(token) == mark_of(token)
    assert mark_of(token) != mark_of(token[:-1])
    assert len(mark_of(token)) == 32
    assert not any(part in mark_of(token) for part in token.split("-"))
