"""A queue is rung at the moment when its rate allows more."""

from holdfast.services.waking.doorbell import Bell, Doorbells
from holdfast.services.waking.openings import Openings


async def test_whoever_waits_is_rung_at_the_earliest_opening() -> None:
    doorbells = Doorbells()
    openings = Openings(doorbells)
    openings.note("q", 3600)
    openings.note("q", 0.01)
    openings.note("q", 7200)
    with doorbells.listen([Bell("queue", "q")]) as listener:
        assert await listener.wait(30)
    openings.note("q", 0.01)
    openings.close()
