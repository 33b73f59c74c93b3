"""Schedules fire, are skipped and missed."""

import pytest

import holdfast.simulation as sim
from holdfast.model.submitting.schedules import ScheduleTerms
from tests.simulation.small_plans import COMMAND, placed, play, work


def test_firings_are_skipped_queued_or_cancel_the_one_before() -> None:
    def fire(overlap: str) -> sim.Report:
        terms = ScheduleTerms(cron="0 * * * *", overlap=overlap)  # type: ignore[arg-type]
        slow = sim.Schedule(name="s", work=work(COMMAND, 5400), terms=terms)
        return play(fleet=[placed(9)], schedules=[slow], days=0.51)

    assert fire("skip").schedules["s"].skipped == 6
    assert fire("allow").fleet["w"].cpu == pytest.approx(1.5 / 9, rel=0.2)
    queued = fire("queue")
    assert queued.schedules["s"].fired == 12
    assert queued.jobs["SUCCEEDED"] == 7
    assert fire("cancel").jobs["KILLED"] == 11
