"""What is held, and what was: `test_held_attempts` has the same with processes."""

from pathlib import Path

from holdfast.worker.placed.attempt import PlacedAttempt
from holdfast.worker.placed.held import Held
from holdfast.worker.running.attempt_outcome import KILLED
from tests.worker.placed.test_held_attempts import an_attempt


class Noted(Held):
    """Runs nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[PlacedAttempt] = []
        self.cleared: list[PlacedAttempt] = []

    def _begin(self, attempt: PlacedAttempt) -> None:
        self.begun.append(attempt)

    def _clear_away(self, attempt: PlacedAttempt) -> None:
        self.cleared.append(attempt)


def test_what_is_over_is_dropped_and_known_as_long_as_calls_name_it(tmp_path: Path) -> None:
    held = Noted()
    attempt = an_attempt(tmp_path)
    held.add(attempt)
    held.drop(attempt.key)
    assert list(held) == held.begun == [attempt]
    attempt.outcome = KILLED
    held.drop(attempt.key)
    assert (len(held), held.cleared) == (0, [attempt])
    assert held.was_dropped(attempt.key)
    held.forget_dropped({attempt.key})
    assert held.was_dropped(attempt.key)
    held.forget_dropped(set())
    assert not held.was_dropped(attempt.key)


def test_what_is_over_when_it_comes_does_not_begin(tmp_path: Path) -> None:
    held = Noted()
    attempt = an_attempt(tmp_path)
    attempt.outcome = KILLED
    held.add(attempt)
    assert held.begun == []
