"""Shares divide by weight."""

import pytest

import holdfast.simulation as sim
from holdfast.model.limits.shares import ShareRule
from tests.simulation.small_plans import MAIL, placed, play, work


def test_shares_divide_what_there_is_by_their_weights() -> None:
    spec = dict(MAIL)
    busy = [
        sim.Arrivals(name=owner, every=20, work=work(spec | {"owner": owner}, 100))
        for owner in ("ann", "ben")
    ]
    report = play(
        fleet=[placed(1, queues=("mail",), slots=4)],
        arrivals=busy,
        shares={"mail": ShareRule("owner", {"ann": 3})},
    )
    ann, ben = (report.waits_by_owner[owner].attempts for owner in ("ann", "ben"))
    assert ann + ben == pytest.approx(24 * 3600 * 4 / 100, rel=0.02)
    assert ann == pytest.approx(3 * ben, rel=0.05)
