"""Where claims begin while dead rows may not be removed, told on a clock of the test's own."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.ledger.positions import REST_FACTOR, REST_SECONDS_MAX, Positions
from holdfast.store.tables.work.ready import FIRST_PLACE, Place

NOW = datetime(2026, 11, 18, tzinfo=UTC)
LOOK_SECONDS = 0.07


class World:
    """Positions, and the time."""

    def __init__(self) -> None:
        self.time = 100.0
        self.positions = Positions(lambda: self.time)
        self.positions.note_held(True)

    def look(self, *numbers: int, urgency: int = 0, seconds: float = LOOK_SECONDS) -> Place:
        """Claim from wherever it begins; returns where that was."""
        begun = self.positions.find(["q"])
        firsts = {"q": min(place_of(number, urgency) for number in numbers)} if numbers else {}
        self.positions.note(begun, firsts, seconds=seconds)
        return begun["q"]


def place_of(number: int, urgency: int = 0) -> Place:
    """Say where a task of a job stands, the later the higher its number."""
    return Place(urgency, NOW + timedelta(seconds=number), number, 0)


@pytest.fixture
def world() -> World:
    """Vacuum is held up."""
    return World()


def test_after_a_look_from_the_beginning_claims_go_on_from_what_was_found(world: World) -> None:
    assert world.look(5, 6, 7) == FIRST_PLACE
    assert world.look(8, 9) == place_of(5)
    assert world.look(10) == place_of(8)


def test_a_twentieth_of_the_time_is_for_looks_from_the_beginning(world: World) -> None:
    world.look(5)
    world.time += REST_FACTOR * LOOK_SECONDS - 0.001
    assert world.look(6) == place_of(5)
    world.time += 0.002
    assert world.look(3, urgency=-1) == FIRST_PLACE
    assert world.look() == Place(-1, *place_of(3)[1:])


def test_a_look_that_hung_puts_the_next_one_off_for_a_moment_only(world: World) -> None:
    world.look(5, seconds=60.0)
    world.time += REST_SECONDS_MAX
    assert world.look(3, urgency=-1) == FIRST_PLACE


def test_in_a_queue_that_is_empty_claims_stay_where_the_last_task_was(world: World) -> None:
    world.look(5)
    assert world.look() == place_of(5)
    world.time += 3600
    assert world.look() == FIRST_PLACE
    assert world.look() == place_of(5)


def test_a_queue_in_which_nothing_was_found_yet_is_looked_at_from_the_beginning(
    world: World,
) -> None:
    assert [world.look(), world.look()] == [FIRST_PLACE, FIRST_PLACE]


def test_places_are_forgotten_once_vacuum_is_free(world: World) -> None:
    world.look(5)
    world.positions.note_held(False)
    assert world.positions.find(["q"]) == {"q": FIRST_PLACE}
