"""Jobs that new ones refer to: there and live, or the new ones are refused."""

from typing import Any

import pytest

from holdfast.errors import IllegalMove, Invalid, NotFound
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit, submit_one
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from tests.world import World


def a_job(name: str | None = None, parent: int | None = None, **fields: Any) -> Submission:
    """Describe one job, of a graph or not."""
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields)
    return Submission(spec, local_name=name, parent_job_id=parent)


async def test_an_id_that_is_guessed_is_nobody_to_wait_for(ledger: Ledger, world: World) -> None:
    [[last]] = await world.clock.fetch("select last_value from holdfast.job_ids")
    for guess in range(last, last + 5):
        with pytest.raises(Invalid, match="there is no job"):
            await submit_one(ledger, a_job(depends_on=[str(guess + 1)]))
    assert await world.count("jobs") == 0


async def test_a_guessed_id_is_not_that_of_a_job_of_the_same_graph(
    ledger: Ledger, world: World
) -> None:
    for step in range(5):
        [[last]] = await world.clock.fetch("select last_value from holdfast.job_ids")
        guess = str(last + step)
        graph = [a_job("a"), a_job("b", depends_on=["a"]), a_job("c", depends_on=[guess])]
        with pytest.raises(Invalid, match=f"there is no job {guess}"):
            await submit_batch(ledger, graph)
    assert await world.count("jobs") == 0


def a_submission(inputs: list[Any] | None = None, **fields: Any) -> Submission:
    """Describe a job for queue `q`; `parent_job_id` is a link, the rest belongs to the spec."""
    parent = fields.pop("parent_job_id", None)
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields)
    texts = None if inputs is None else parse_inputs(inputs)
    return Submission(spec, texts, parent_job_id=parent)


@pytest.mark.parametrize("in_chunks", [False, True])
async def test_a_job_whose_parent_is_missing_is_refused_alone(
    ledger: Ledger, in_chunks: bool
) -> None:
    orphan = a_submission(replicas=10_001 if in_chunks else 1, parent_job_id=999)
    first, refused, last = await submit(ledger, [a_submission(), orphan, a_submission()])
    assert isinstance(first, Submitted)
    assert isinstance(refused, NotFound)
    assert isinstance(last, Submitted)


async def test_a_job_whose_parent_has_ended_is_refused_alone(ledger: Ledger, world: World) -> None:
    parent = await world.submit()
    await world.cancel_job(parent)
    good, refused = await submit(ledger, [a_submission(), a_submission(parent_job_id=parent)])
    assert isinstance(good, Submitted)
    assert isinstance(refused, IllegalMove)


async def test_a_child_of_a_job_that_is_being_cancelled_is_refused(
    ledger: Ledger, world: World
) -> None:
    parent = await world.submit()
    await cancel_job(ledger, parent, "soft", actor="operator")
    with pytest.raises(IllegalMove):
        await world.submit_child(parent)
