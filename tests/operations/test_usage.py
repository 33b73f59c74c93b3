"""What attempts have used is noted, the latest while they run, if it can be kept."""

from typing import Any

import pytest

from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.operations.usage import USAGE_BYTES_MAX, Usage, note_usage
from tests.placed_world import PlacedWorld

READ = "select ports ? 'rpc', usage::text, build::text from holdfast.attempt_usage"


async def placed(cluster: PlacedWorld) -> Fence:
    """Have a task placed."""
    await cluster.add("w1")
    task_id = TaskId(await cluster.submit(resources={"ports": ["rpc"]}), 0)
    assert task_id in await cluster.place()
    return await cluster.fence(task_id)


async def test_usage_is_kept_and_a_repeat_changes_nothing(cluster: PlacedWorld) -> None:
    fence = await placed(cluster)
    other = fence._replace(task_id=TaskId(fence.task_id.job_id, 1))
    first = Usage(fence, {"cpu_seconds": 1.5}, {"seconds": 3})
    await note_usage(cluster.ledger, [Usage(other, None), first, first])
    for is_final in (True, False):
        await note_usage(
            cluster.ledger, [Usage(fence, {"cpu_seconds": 9.0}, None, is_final=is_final)]
        )
    await note_usage(cluster.ledger, [])
    [row] = await cluster.clock.fetch(READ)
    assert tuple(row) == (True, '{"cpu_seconds": 1.5}', '{"seconds": 3}')


async def test_while_an_attempt_runs_the_latest_usage_counts(cluster: PlacedWorld) -> None:
    fence = await placed(cluster)
    for seconds in (1.0, 2.0):
        so_far = Usage(fence, {"cpu_seconds": seconds}, is_final=False)
        await note_usage(cluster.ledger, [so_far])
        [row] = await cluster.clock.fetch(READ)
        assert tuple(row) == (True, f'{{"cpu_seconds": {seconds}}}', None)
    await note_usage(cluster.ledger, [Usage(fence, None, {"seconds": 3})])
    await note_usage(cluster.ledger, [so_far])
    [row] = await cluster.clock.fetch(READ)
    assert tuple(row) == (True, '{"cpu_seconds": 2.0}', '{"seconds": 3}')


@pytest.mark.parametrize(
    "usage", [{"text": "x" * USAGE_BYTES_MAX}, {"text": "a\x00b"}, {"a\x00b": 1}]
)
async def test_what_cannot_be_kept_is_left_out(cluster: PlacedWorld, usage: dict[str, Any]) -> None:
    fence = await placed(cluster)
    await note_usage(cluster.ledger, [Usage(fence, usage)])
    [row] = await cluster.clock.fetch(READ)
    assert tuple(row) == (True, None, None)
