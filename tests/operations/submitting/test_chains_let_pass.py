"""A job of a chain that fails before its turn: who waits for it, and what a let-pass does then."""

from holdfast.operations.ending.dependents import let_pass
from tests.audits import assert_audit_is_silent
from tests.operations.submitting.test_chains import end_before_its_turn, finish, join
from tests.world import World


async def test_one_that_failed_before_its_turn_stops_the_chain_until_it_is_let_pass(
    world: World,
) -> None:
    running, second = await end_before_its_turn(world, "dead letter")
    third = await join(world, on_failure="block")
    assert await world.claim(9) == []
    await let_pass(world.ledger, second, actor="eve", reason="mended")
    await world.pass_time(2)
    assert await world.claim(9) == []
    await assert_audit_is_silent(world.ledger.database)
    await world.succeed(running)
    await world.pass_time(2)
    await finish(world, expected=third)


async def test_who_comes_after_one_that_was_let_pass_waits_for_those_before(world: World) -> None:
    running, second = await end_before_its_turn(world, "dead letter")
    assert await let_pass(world.ledger, second, actor="eve", reason="mended")
    third = await join(world, on_failure="block")
    assert await world.claim(9) == []
    await world.succeed(running)
    await world.run_chores()
    await finish(world, expected=third)


async def test_who_waits_for_one_that_was_let_pass_waits_for_those_before_and_blocks_there(
    world: World,
) -> None:
    running, second = await end_before_its_turn(
        world, "dead letter", lambda _: join(world, on_failure="block")
    )
    assert await let_pass(world.ledger, second, actor="eve", reason="mended")
    assert not await let_pass(world.ledger, second, actor="eve", reason="mended")
    await assert_audit_is_silent(world.ledger.database)
    await world.fail(running)
    await world.pass_time(2)
    assert await world.claim(9) == []
    assert await let_pass(world.ledger, running.task_id.job_id, actor="eve", reason="mended")
    assert await finish(world) > second
    await assert_audit_is_silent(world.ledger.database)


async def test_one_that_names_the_first_is_let_pass_as_soon_as_that_has_ended(
    world: World,
) -> None:
    running, second = await end_before_its_turn(
        world,
        "dead letter",
        lambda first: join(world, depends_on=[str(first)], on_failure="block"),
    )
    assert await let_pass(world.ledger, second, actor="eve", reason="mended")
    await world.pass_time(3)
    assert await world.claim(9) == []
    await world.succeed(running)
    await world.pass_time(3)
    assert await finish(world) > second
    await assert_audit_is_silent(world.ledger.database)
