"""A ledger without pollers around it lends nothing."""

from holdfast.ledger.lending import NobodyWaits


def test_nobody_waits_at_a_ledger_alone() -> None:
    with NobodyWaits().borrow("q") as loan:
        assert loan is None
