"""The report in words."""

import holdfast.simulation as sim
from holdfast.simulation.report import summarize
from tests.simulation.small_plans import COMMAND, once, placed, play, work


def test_a_report_reads_well() -> None:
    report = play(fleet=[placed(2)], schedules=[once("s", work(COMMAND, 3600, tasks=3))])
    text = report.as_text().splitlines()
    assert text[0] == "1 days, seed 1: 1 succeeded"
    assert text[2].split() == ["type", "tasks", "retries", "lost", "dead", "p50", "p95", "longest"]
    assert text[3].split() == ["work", "3", "0", "0", "0", "0.1", "s", "60.0", "min", "60.0", "min"]


def test_quantiles_are_numbers_that_were_measured() -> None:
    waits = summarize([4.0, 1.0, 2.0, 3.0, 100.0])
    assert waits == sim.Waits(attempts=5, p50=3.0, p95=100.0, longest=100.0)
