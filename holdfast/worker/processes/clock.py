"""The clock that lease deadlines are kept by: it also runs while the machine is suspended."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_clock() -> float:
    """Read the seconds since the machine was started."""
    return time.clock_gettime(_CLOCK)
