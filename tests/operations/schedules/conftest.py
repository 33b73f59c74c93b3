"""A timetable in a world of its own, in which it is a while from now."""

import pytest

from tests.timetable import Timetable, at
from tests.world import World


@pytest.fixture
async def timetable(world: World) -> Timetable:
    """No schedules yet, at the beginning of a year."""
    timetable = Timetable(world)
    await timetable.go_to(at("2030-01-01T00:00:00.5"))
    return timetable
