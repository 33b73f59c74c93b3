"""How long to wait before asking again."""

import pytest

from holdfast.client.pauses import Pauses, read_retry_after, spread
from holdfast.errors import Unavailable


def test_pauses_grow_up_to_a_limit_and_begin_anew() -> None:
    pauses = Pauses(1.0, 3.0)
    for least, most in ((0.5, 1.0), (1.0, 2.0), (1.5, 3.0), (1.5, 3.0)):
        assert least <= pauses.next() <= most
    pauses.reset()
    assert pauses.next() <= 1.0


def test_no_two_wait_equally_long() -> None:
    assert len({spread(1.0) for _ in range(100)}) > 90
    asked = Unavailable("later")
    asked.retry_after = 2.0
    assert len({Pauses(0.1, 1.0).next(asked) for _ in range(100)}) > 90


def test_who_is_asked_to_wait_waits_that_long_at_least() -> None:
    asked = Unavailable("later")
    asked.retry_after = 2.0
    waits = [Pauses(0.1, 1.0).next(asked) for _ in range(100)]
    assert 2.0 <= min(waits) <= max(waits) <= 3.0
    assert Pauses(0.1, 1.0).next(Unavailable("nobody says when")) <= 0.1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, None), ("", None), ("7", 7.0), ("86400", 60.0), ("Wed, 21 Oct 2015", None)],
)
def test_the_header_is_read_within_reason(text: str | None, seconds: float | None) -> None:
    assert read_retry_after(text) == seconds
