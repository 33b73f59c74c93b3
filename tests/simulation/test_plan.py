"""Plans that make no sense are refused, and durations are drawn."""

from random import Random

import pytest

import holdfast.simulation as sim
from holdfast.errors import Invalid
from tests.simulation.small_plans import COMMAND, placed, play, work


def test_what_cannot_be_meant_is_refused() -> None:
    arrivals = sim.Arrivals(name="a", every=60, work=work(COMMAND, 1))
    with pytest.raises(Invalid, match="two of one name"):
        play(fleet=[placed()], arrivals=[arrivals, arrivals])
    bad = sim.Arrivals(name="a", every=60, work=work(COMMAND | {"priority": 10**9}, 1))
    with pytest.raises(Invalid, match="priority"):
        play(fleet=[placed()], arrivals=[bad])


def test_a_log_normal_keeps_its_median_and_its_tail() -> None:
    random = Random(1)
    drawn = sorted(sim.LogNormal(60, 600).draw(random) for _ in range(10_000))
    assert drawn[5000] == pytest.approx(60, rel=0.05)
    assert drawn[9500] == pytest.approx(600, rel=0.1)
    assert 1 <= sim.Uniform(1, 2).draw(random) <= 2
