"""Workers break, the server is away, and the rules say what that costs."""

import pytest

import holdfast.simulation as sim
from holdfast.model.submitting.schedules import ScheduleTerms
from tests.simulation.small_plans import COMMAND, START, once, placed, play, work


def test_a_worker_that_breaks_costs_its_attempts_a_preemption_and_a_lease() -> None:
    report = play(
        fleet=[placed(2, cpu=1, outages=[sim.Outage(1800, 86_400)])],
        schedules=[once("s", work(COMMAND | {"lease": 60}, 3600))],
        days=2,
    )
    fates = report.by_type["work"]
    # Both workers go at once, and are back a day later.
    assert (fates.losses_charged, fates.succeeded, fates.retries) == (1, 1, 1)
    assert report.waits_by_type["work"].longest > 80_000
    assert report.fleet["w"].available == pytest.approx(0.5)


def test_an_outage_of_the_server_costs_nobody_a_retry_and_misses_instants() -> None:
    ticks = sim.Schedule(
        name="ticks",
        work=work(COMMAND | {"max_retries_preemption": 0}, 30),
        terms=ScheduleTerms(every=600, start_at=START),
    )
    long = once("s", work(COMMAND | {"max_retries_preemption": 0, "type": "long"}, 7200))
    report = play(fleet=[placed(3)], schedules=[ticks, long], outages=[sim.Outage(3700, 1810)])
    assert report.schedules["ticks"].missed == 3
    assert report.by_type["long"].losses_free == 1
    assert report.by_type["long"].succeeded == 1
    assert report.by_type["work"].failed == 0
