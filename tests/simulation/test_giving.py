"""What starts where, in which order."""

import pytest

import holdfast.simulation as sim
from holdfast.model.workers.resources import Capacity
from tests.simulation.small_plans import COMMAND, once, placed, play, work


def test_what_does_not_fit_waits_until_there_is_room() -> None:
    # Three tasks of an hour on two cores: the third begins an hour later.
    report = play(fleet=[placed(2)], schedules=[once("s", work(COMMAND, 3600, tasks=3))])
    waits = report.waits_by_type["work"]
    assert (waits.attempts, waits.p50) == (3, 0.1)
    assert waits.longest == pytest.approx(3600.2, abs=0.01)
    assert report.fleet["w"].cpu == pytest.approx(3 / 48, abs=1e-4)
    assert report.jobs["SUCCEEDED"] == 1


def test_a_gang_waits_until_all_of_it_fits_and_restarts_as_one() -> None:
    gang = COMMAND | {"replicas": 3, "coscheduling": {}, "max_retries_failure": 5}
    alone = once("alone", work(COMMAND | {"type": "alone"}, 600), at=10)
    report = play(fleet=[placed(3)], schedules=[alone, once("gang", work(gang, 60))])
    assert report.waits_by_type["work"].p50 > 540
    away = [sim.Outage(90, 30)]
    one = placed(1, outages=away)
    two = sim.Workers(name="v", count=2, capacity=Capacity(cpu=1))
    broken = play(fleet=[one, two], schedules=[once("gang", work(gang, 600))])
    fates = broken.by_type["work"]
    assert (fates.succeeded, fates.losses_charged, fates.losses_free) == (3, 1, 2)


def test_large_tasks_are_not_passed_for_ever() -> None:
    small = sim.Arrivals(name="small", every=60, work=work(COMMAND, 200))
    large = once("large", work(COMMAND | {"type": "large", "resources": {"cpu": 4}}, 60), at=3600)
    report = play(fleet=[placed(1, cpu=4)], arrivals=[small], schedules=[large])
    assert report.waits_by_type["large"].longest < 900
