"""When a command has to end, and why: its lease runs out, or its worker wants it gone.

What is said on `control` is a line each. Standard library only, and no clock: a shim reads one and
says what time it is.
"""

import math

NEVER = float("inf")


def say_deadline(deadline: float) -> str:
    """Move the deadline, an instant of the boot clock."""
    return f"deadline {deadline:.6f}"


def say_soft(grace: float) -> str:
    """Ask a command to end, and have it killed when so many seconds are over."""
    return f"soft {grace:.6f}"


SAY_HARD = "hard"


class CommandDeadline:
    """The deadline of one command, and what was asked of it; `reason` is why it has to end."""

    def __init__(self, deadline: float) -> None:
        self.reason: str | None = None
        self._deadline = deadline
        self._soft_ends_at = NEVER

    @property
    def at(self) -> float:
        """When it has to end, as far as is known now."""
        return min(self._deadline, self._soft_ends_at)

    def obey(self, line: str, now: float) -> bool:
        """Take note of a line; true if the command is to be asked to end. Raises ValueError."""
        match line.split():
            case ["deadline", instant]:
                self._deadline = _finite(instant)
            case ["soft", seconds]:
                ends_at = now + _finite(seconds)
                is_first = self._soft_ends_at == NEVER
                if is_first:
                    self.reason = "soft"
                self._soft_ends_at = min(self._soft_ends_at, ends_at)
                return is_first
            case ["hard"]:
                self.reason = "hard"
            case words:
                raise ValueError(words)
        return False

    def must_end(self, now: float) -> bool:
        """Tell whether the command is to be killed now."""
        if self.reason == "hard":
            return True
        if self._deadline <= now:
            self.reason = "lease"
            return True
        return self._soft_ends_at <= now


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # no deadline at all is none that we keep
        raise ValueError(text)
    return number
