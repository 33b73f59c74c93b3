"""The order of locks: what stands in the model is what real transactions do, and has no circle."""

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from protocol import locks
from protocol.locks import BROKEN, OPERATIONS, ORDER, OUT_OF_ORDER, UNORDERED, Lock, parse
from tests.placed_world import PlacedWorld
from tests.protocol import lock_stories
from tests.protocol.lock_probe import LockProbe, Wait
from tests.protocol.lock_stories import Step
from tests.world import World

ROOT = Path(__file__).parents[2]
CLAIMED = (
    lock_stories.queue_work,
    lock_stories.late_work,
    lock_stories.sized_work,
    lock_stories.limited_work,
    lock_stories.shared_work,
    lock_stories.ordered_work,
    lock_stories.undone_work,
    lock_stories.signalled_work,
    lock_stories.outputs,
    lock_stories.schedules,
)


def write_sequence(waits: list[Wait]) -> str:
    """Write down what was seen as the model does; what goes back and forth is in no order."""
    waited = {wait.row.table for wait in waits}
    edges = edges_of(waits)
    assert not find_back_and_forth(waits)
    sequence = sorted(waited, key=lambda name: (len(_before(name, edges) & waited), _rank(name)))
    for passed in sorted({held for held, _ in edges} - waited):
        first = next(n for n, name in enumerate(sequence) if (passed, name) in edges)
        sequence.insert(first, f"~{passed}")
    places = {name.removeprefix("~"): place for place, name in enumerate(sequence)}
    assert all(places[held] <= places[wanted] for held, wanted in edges), (sequence, edges)
    return ", ".join(sequence)


def edges_of(waits: list[Wait]) -> set[tuple[str, str]]:
    """List which tables are held while others are waited for."""
    return {(held.table, wait.row.table) for wait in waits for held in wait.held}


def find_back_and_forth(waits: list[Wait]) -> set[tuple[str, str]]:
    """Find tables of which each is held while the other is waited for."""
    edges = edges_of(waits)
    return {edge for edge in edges if edge[0] != edge[1] and edge[::-1] in edges}


def _rank(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


def _before(name: str, edges: set[tuple[str, str]]) -> set[str]:
    return {held for held, wanted in edges if wanted == name and held != name}


def find_disorder(waits: list[Wait]) -> list[Wait]:
    """Find who waits for a row while he holds one of the same table behind it."""
    return [
        wait
        for wait in waits
        if wait.row.table not in UNORDERED
        and any(row.table == wait.row.table and row > wait.row for row in wait.held)
    ]


async def compare(steps: AsyncIterator[Step], url: str) -> set[str]:
    """Run each operation of a story and compare it with the model; returns which."""
    seen = {}
    async with LockProbe(url) as probe:
        async for operation, action in steps:
            waits = await probe.record(action)
            if operation in OUT_OF_ORDER:
                assert find_disorder(waits) or find_back_and_forth(waits), operation
                continue
            assert find_disorder(waits) == [], operation
            seen[operation] = write_sequence(waits)
    assert seen == {operation: OPERATIONS.get(operation) for operation in seen}
    return set(seen)


@pytest.mark.parametrize("story", CLAIMED, ids=lambda story: story.__name__)
async def test_operations_lock_what_the_model_says(
    world: World, direct_url: str, story: Callable[[World], AsyncIterator[Step]]
) -> None:
    assert await compare(story(world), direct_url)


@pytest.mark.parametrize(
    "story",
    [lock_stories.placed_work, lock_stories.limited_gangs],
    ids=lambda story: story.__name__,
)
async def test_placed_operations_lock_what_the_model_says(
    cluster: PlacedWorld, direct_url: str, story: Callable[[PlacedWorld], AsyncIterator[Step]]
) -> None:
    assert await compare(story(cluster), direct_url)


def test_every_operation_of_the_model_is_recorded() -> None:
    source = Path(lock_stories.__file__).read_text(encoding="utf-8")
    recorded = set(re.findall(r'^ +yield \(?\s*"(\w+)"', source, re.MULTILINE))
    assert recorded == OPERATIONS.keys() | OUT_OF_ORDER.keys()


def test_nobody_waits_in_a_circle() -> None:
    assert locks.find_cycle(OPERATIONS) == []
    assert list(locks.list_disorder(OPERATIONS)) == []


@pytest.mark.parametrize("variant", BROKEN)
def test_a_broken_order_is_a_circle(variant: str) -> None:
    broken = locks.break_rule(variant)
    cycle = locks.find_cycle(broken)
    assert any(edge.operation in BROKEN[variant] for edge in cycle), cycle
    assert [edge.wanted for edge in cycle] == [edge.held for edge in [*cycle[1:], cycle[0]]]


def test_what_is_passed_when_it_is_held_is_no_way_into_a_circle() -> None:
    assert parse("~ready, tasks") == [Lock("ready", waits=False), Lock("tasks")]
    assert locks.find_cycle({"one": "~ready, tasks", "other": "tasks, ~ready"}) == []
    [first, second] = locks.find_cycle({"one": "ready, tasks", "other": "tasks, ready"})
    assert str(first) == "one holds ready and waits for tasks"
    assert str(second) == "other holds tasks and waits for ready"


def test_the_page_has_the_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("\n## Locks\n")[2].partition("\n## ")[0]
    [listed] = re.findall(r"^    (schedules .*(?:\n    .*)*)", section, re.MULTILINE)
    assert tuple(name.strip() for name in listed.split("→")) == ORDER
