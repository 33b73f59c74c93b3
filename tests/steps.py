"""The steps of charts, for tests that want to know into which one something falls."""

from tests.world import World

LONGEST_STEP_SECONDS = 1800


async def to_the_start_of_a_step(world: World) -> None:
    """Let time pass until a step of every length begins, so that what follows falls into it."""
    [[now]] = await world.clock.fetch("select extract(epoch from holdfast.now())::float8")
    await world.clock.advance(LONGEST_STEP_SECONDS - now % LONGEST_STEP_SECONDS + 0.01)
