"""Workers are away as long as anything keeps them away."""

from holdfast.simulation.fleet import make_fleet
from tests.simulation.small_plans import placed


def test_a_worker_that_breaks_during_an_outage_is_back_when_both_are_over() -> None:
    worker = make_fleet([placed(1)])["w-1"]
    assert worker.leave(10.0)
    assert not worker.leave(20.0)
    assert not worker.come_back(30.0)
    assert not worker.view().accepts
    assert worker.come_back(40.0)
    assert worker.view().accepts
    assert worker.count_up_seconds(100.0) == 70.0
