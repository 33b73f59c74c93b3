"""Who pins the vacuum horizon: judged by time or by transactions, named with what to do."""

from datetime import UTC, datetime

import pytest

from holdfast.rules.reading.horizon import (
    Holder,
    HorizonLimits,
    describe_holder,
    find_pinning,
    is_held,
    remedy_of,
)

AT = datetime(2026, 11, 18, 9, 30, tzinfo=UTC)
SESSION = Holder("session", "17", "psql", "ann", "idle in transaction", "select 1;", AT, 400.0, 7)
SLOT = Holder("replication slot", "old", "", "", "inactive", None, None, None, 2_000_000)
PREPARED = Holder("prepared transaction", "x1", "", "ann", "prepared", None, AT, 10.0, 5)


def test_time_or_transactions_make_it_too_long() -> None:
    assert find_pinning([SESSION, SLOT, PREPARED], HorizonLimits()) == [SESSION, SLOT]
    assert find_pinning([SESSION], HorizonLimits(seconds_max=400.0, xids_max=7)) == []


@pytest.mark.parametrize(
    ("holder", "held"),
    [
        (SESSION._replace(seconds=4.0, xids=9_000), False),
        (SESSION._replace(seconds=6.0), True),
        (SESSION._replace(seconds=None, xids=11_000), True),
        (SLOT, True),
    ],
)
def test_dead_rows_pile_up_long_before_anybody_is_warned(holder: Holder, held: bool) -> None:
    assert is_held([PREPARED._replace(seconds=1.0), holder]) is held


@pytest.mark.parametrize(
    ("holder", "words", "remedy"),
    [
        (
            SESSION,
            "session 17 of ann (psql), idle in transaction, query of 09:30:00 UTC: select 1; "
            "holds the vacuum horizon for 400 s, 7 transactions back",
            "pg_terminate_backend(17)",
        ),
        (
            SLOT,
            "replication slot old, inactive, holds the vacuum horizon, 2000000 transactions back",
            "pg_drop_replication_slot('old')",
        ),
        (
            PREPARED,
            "prepared transaction 'x1' of ann holds the vacuum horizon for 10 s, "
            "5 transactions back",
            "rollback prepared 'x1'",
        ),
        (
            PREPARED._replace(name="it's"),
            "prepared transaction 'it's' of ann holds the vacuum horizon for 10 s, "
            "5 transactions back",
            "rollback prepared 'it''s'",
        ),
    ],
)
def test_each_kind_is_named_with_its_remedy(holder: Holder, words: str, remedy: str) -> None:
    assert describe_holder(holder) == words
    assert remedy in remedy_of(holder)


def test_what_is_hidden_is_said_to_be() -> None:
    hidden = SESSION._replace(state=None, query=None, seconds=None, is_hidden=True)
    assert "grant pg_read_all_stats" in describe_holder(hidden)


def test_a_long_query_is_cut() -> None:
    assert "x" * 60 + "..." in describe_holder(SESSION._replace(query="x" * 100))
