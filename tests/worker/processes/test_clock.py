"""The clock of the deadlines."""

import time

from holdfast.worker.processes.clock import boot_clock


def test_the_clock_counts_from_the_start_of_the_machine_with_suspended_time() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = boot_clock()
    assert before <= now <= time.clock_gettime(time.CLOCK_BOOTTIME)
