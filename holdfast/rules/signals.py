"""What a signal, and a wait for one, may look like."""

from datetime import timedelta

from holdfast.errors import Invalid
from holdfast.rules.submitting.submission import check_text

NAME_LENGTH_MAX = 200
WAITS_PER_NAME_MAX = 1000
TIMEOUT_DAYS_MAX = 3660


def check_signal_name(name: str) -> None:
    """Refuse what no signal can be called."""
    if not name:
        raise Invalid("name", "is empty; name the signal, such as approval")
    check_text("name", name, NAME_LENGTH_MAX)


def check_wait_number(number: int) -> None:
    """Refuse a wait that no function gets to."""
    if not 1 <= number <= WAITS_PER_NAME_MAX:
        problem = f"{number} is not from 1 to {WAITS_PER_NAME_MAX}; a task waits so often at most"
        raise Invalid("number", f"{problem} for one name: use another name")


def read_timeout(seconds: float | None) -> timedelta | None:
    """Read for how long to wait; None is without end."""
    if seconds is None:
        return None
    if not 0 <= seconds <= TIMEOUT_DAYS_MAX * 86_400:
        problem = f"{seconds!r} is not from 0 to {TIMEOUT_DAYS_MAX} days, in seconds"
        raise Invalid("timeout", f"{problem}; leave it out to wait without end")
    return timedelta(seconds=seconds)
