"""`client.dead_letters` on a real server."""

from collections.abc import Callable

import pytest

from holdfast.client.client import Client
from holdfast.errors import Invalid, KeyReused
from holdfast.wire.requests import DeadLetterFilter
from tests.client.hand import Hand
from tests.client.namespaces.conftest import Face


@pytest.fixture
def letters(hand: Hand, submit: Callable[..., str]) -> list[str]:
    """Three tasks of one job that were put aside."""
    job_id = submit(3)
    for _ in range(3):
        hand.fail(hand.claim())
    return [f"{job_id}.{index}" for index in range(3)]


def test_dead_letters_are_listed_and_read(call: Face, client: Client, letters: list[str]) -> None:
    page = call(client.dead_letters.list, queue="q", count_max=2)
    assert [letter.task_id for letter in page.dead_letters] == letters[:2]
    assert page.next_page_token is not None
    assert bytes(call(client.dead_letters.get, letters[1]).input) == b"1"
    assert call(client.dead_letters.list, reason_code="timeout", job_id="1").dead_letters == []


def test_dead_letters_are_replayed_and_discarded(
    call: Face, client: Client, letters: list[str]
) -> None:
    first, *others = letters
    call(client.dead_letters.discard, [first])
    dry = call(client.dead_letters.replay, DeadLetterFilter(queue="q"), dry_run=True)
    assert [made.task_ids for made in dry.replays] == [others]
    done = call(client.dead_letters.replay, others, idempotency_key="k")
    assert [made.task_ids for made in done.replays] == [others]
    with pytest.raises(KeyReused):
        call(client.dead_letters.replay, others, idempotency_key="k", rebind_outputs=True)
    assert call(client.dead_letters.list).dead_letters == []
    assert len(call(client.dead_letters.list, settled=True).dead_letters) == len(letters)


def test_a_canary_goes_first_and_one_gets_another_input(
    call: Face, client: Client, letters: list[str]
) -> None:
    dry = call(client.dead_letters.replay, letters, dry_run=True, canary=1)
    assert [made.is_canary for made in dry.replays] == [True, False]
    dry = call(client.dead_letters.replay, letters, dry_run=True, rate=0.5)
    assert [(made.start_delay, made.start_rate) for made in dry.replays] == [(0.0, 0.5)]
    with pytest.raises(Invalid, match="rate: is nan"):
        call(client.dead_letters.replay, letters, rate=float("nan"))
    with pytest.raises(Invalid, match="input: cannot be written as JSON"):
        call(client.dead_letters.replay, letters[:1], input=object())
    done = call(client.dead_letters.replay, letters[:1], input={"n": None})
    assert done.replays[0].input_edited
    assert call(client.dead_letters.get, letters[0]).input_edited
    assert call(client.dead_letters.replay, letters[1:2], input=None).replays[0].input_edited


def test_what_is_no_dead_letter_is_refused(call: Face, client: Client) -> None:
    with pytest.raises(Invalid):
        call(client.dead_letters.discard, ["nonsense"])
    with pytest.raises(Invalid):
        call(client.dead_letters.get, "nonsense")
