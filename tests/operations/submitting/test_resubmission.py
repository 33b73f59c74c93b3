"""A job described again asks for what it asked for, but for what held only the first time."""

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.submitting.resubmission import describe_again, note_replays
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_spec
from tests.world import World


async def test_a_job_described_again_waits_for_what_it_still_needs(
    ledger: Ledger, world: World
) -> None:
    met, unmet = await world.submit(), await world.submit(queue="later")
    [claim] = await world.claim()
    await world.succeed(claim)
    spec = {
        "entrypoint": {"function": "app:work"},
        "queue": "q",
        "labels": {"team": "search"},
        "idempotency_key": "once",
        "not_before": 1.0,
        "depends_on": [str(met), str(unmet)],
    }
    first = await submit_one(ledger, Submission(parse_spec(spec), ("1",)))
    async with ledger.database.transaction() as tx:
        again = (await describe_again(ledger, tx, [first.job_id], rebind=False))[first.job_id]
    assert (again.spec.idempotency_key, again.spec.not_before) == (None, None)
    assert again.spec.depends_on == [str(unmet)]
    assert again.spec.labels == {"team": "search"}
    assert again.spec.correlation_id == (await world.job(first.job_id))["correlation_id"]
    made = again.submission(("7",))
    assert (made.inputs, made.replay_of, made.compensates_job_id) == (("7",), first.job_id, None)


async def test_replicas_have_no_inputs_the_second_time_either(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(replicas=3)
    async with ledger.database.transaction() as tx:
        again = (await describe_again(ledger, tx, [job_id], rebind=False))[job_id]
        await note_replays(tx, {job_id: [4711]}, actor="ann", action="rerun")
    assert (again.submission(("null",)).inputs, again.spec.replicas) == (None, 3)
    assert await world.story(job_id, -1) == ["submitted", "replayed"]
