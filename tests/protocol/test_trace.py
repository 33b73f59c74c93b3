"""What was recorded is checked against the steps of the model, and what is none is refused."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.dead_letters import dead_letter_task
from protocol import trace
from protocol.trace import Ended, Event, Lease, Renewal, Row, Story, check
from tests.databases import TEMPLATE, connect
from tests.placed_world import PlacedWorld
from tests.world import World

MODELS = Path(trace.__file__).parent
START = datetime(2030, 1, 1, tzinfo=UTC)
TASK = (7, 0)


def at(seconds: float) -> datetime:
    """Name a moment."""
    return START + timedelta(seconds=seconds)


def told(*events: tuple[int, str, float]) -> list[Event]:
    """Number events of attempts; what happens at one moment is written in one transaction."""
    return [
        Event(seq, attempt, kind, at(seconds), int(seconds))
        for seq, (attempt, kind, seconds) in enumerate(events)
    ]


def a_story() -> Story:
    """Tell of a task whose first attempt ran into its timeout, and whose second one succeeded."""
    return Story(
        events=told(
            (0, "claimed", 0), (0, "started", 1), (0, "failed", 20), (1, "retried", 20),
            (1, "claimed", 31), (1, "building", 32), (1, "started", 33), (1, "succeeded", 40),
        ),
        ended={0: Ended(5, at(20), at(45), at(30)), 1: Ended(4, at(40), at(61), at(40))},
        renewals=[Renewal(0, at(15), at(45))],
        row=Row(4, 1, 8),
    )  # fmt: skip


def a_dead_letter() -> Story:
    """Tell of a task that an operator dead-lettered while it ran, and whose process lives on."""
    return Story(
        events=told(
            (0, "claimed", 0), (0, "started", 0), (0, "killed", 9), (0, "dead_lettered", 9)
        ),
        ended={0: Ended(6, at(9), at(30), None)},
        row=Row(10, 0, 4),
        lease=Lease(0, is_ending=True, expires_at=at(30)),
    )  # fmt: skip


def a_wait(*, end: str = "killed", by: float = 25) -> Story:
    """Tell of a task whose retry waits for the release of its last lease, and ends meanwhile."""
    story = a_story()
    del story.events[4:], story.ended[1]
    story.events.append(Event(4, 1, end, at(by), int(by)))
    story.row = Row({"killed": 6, "unschedulable": 8, "dead_lettered": 10}[end], 1, 5)
    return story


STORIES = (a_story, a_dead_letter, a_wait)


def problem_of(story: Story) -> str:
    """Say what is no step of the model."""
    _, illegal = check({TASK: story})
    return illegal[0].problem if illegal else ""


def renumbered(story: Story, events: Iterable[Event]) -> Story:
    """Give a story other events, as if nothing but these had ever been written."""
    story.events = [event._replace(seq=seq) for seq, event in enumerate(events)]
    last = story.events[-1]
    story.row = story.row._replace(attempt=last.attempt, moves=len(story.events))
    return story


def without(story: Story, seq: int) -> Story:
    """Lose an event, and close the gap."""
    return renumbered(story, [event for event in story.events if event.seq != seq])


def test_a_sound_story_is_told_in_steps_of_the_model() -> None:
    steps, illegal = check({TASK: a_story()})
    assert illegal == []
    assert dict(steps) == {
        "open_lease": 2, "report": 3, "end_attempt": 1, "after_attempt": 1, "release": 1,
        "end_and_release": 1, "renew_transaction": 1,
    }  # fmt: skip


@pytest.mark.parametrize("tell", STORIES)
def test_sound_stories_are_steps_of_the_model(tell: Callable[[], Story]) -> None:
    assert problem_of(tell()) == ""


def test_every_step_stands_in_a_model() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in MODELS.glob("*.pml"))
    inlines = set(re.findall(r"^inline (\w+)\(", text, re.MULTILINE))
    named = {trace.OPEN, trace.END, trace.END_AND_RELEASE, trace.RELEASE, trace.AFTER, trace.RENEW}
    assert named | {trace.CANCEL} <= inlines
    assert trace.REPORT not in inlines


def test_a_task_may_end_while_the_lease_of_its_last_attempt_is_ending() -> None:
    assert problem_of(a_wait(end="killed")) == ""
    assert problem_of(a_wait(end="dead_lettered")) == ""
    # Nobody could take it yet, so it cannot have waited for too long; after the release it can.
    problem = "nobody could take the task while attempt 0 is unreleased"
    assert problem_of(a_wait(end="unschedulable")) == problem
    assert problem_of(a_wait(end="unschedulable", by=80)) == ""


def test_an_attempt_that_begins_while_another_is_unreleased_is_refused() -> None:
    story = a_story()
    story.ended[0] = story.ended[0]._replace(released_at=at(35))
    assert problem_of(story) == "attempt 1 begins while 0 is unreleased"
    story.ended[0] = story.ended[0]._replace(released_at=None)
    assert problem_of(story) == "attempt 1 begins while 0 is unreleased"


def test_a_lease_that_expires_before_its_time_is_refused() -> None:
    story = a_story()
    story.events[2] = story.events[2]._replace(type="worker_failed", cause="lease expired")
    story.ended[0] = story.ended[0]._replace(state=7)
    assert problem_of(story) == "the lease of attempt 0 expires before its time"
    story.ended[0] = story.ended[0]._replace(expired_at=at(19))
    story.renewals = []
    assert problem_of(story) == ""


@pytest.mark.parametrize("tell", STORIES)
def test_a_lost_event_is_refused(tell: Callable[[], Story]) -> None:
    for seq in range(len(tell().events)):
        story = tell()
        del story.events[seq]
        assert problem_of(story), seq


@pytest.mark.parametrize("tell", STORIES)
def test_an_event_twice_is_refused(tell: Callable[[], Story]) -> None:
    for seq, event in enumerate(tell().events):
        same = tell()
        same.events.append(event)
        assert problem_of(same), seq
        story, events = tell(), tell().events
        events.insert(seq, event)
        assert problem_of(renumbered(story, events)), seq


@pytest.mark.parametrize("tell", STORIES)
def test_two_events_that_have_changed_places_are_refused(tell: Callable[[], Story]) -> None:
    for seq in range(len(tell().events) - 1):
        story, events = tell(), tell().events
        first, second = events[seq], events[seq + 1]
        # Each at the time of the other, so that order alone is what is wrong.
        events[seq] = second._replace(at=first.at, transaction=first.transaction)
        events[seq + 1] = first._replace(at=second.at, transaction=second.transaction)
        assert problem_of(renumbered(story, events)), seq


def test_an_event_that_is_earlier_than_the_one_before_is_refused() -> None:
    late = a_story()
    late.events[1] = late.events[1]._replace(at=at(25))
    assert problem_of(late) == "failed is earlier than what comes before it"


@pytest.mark.parametrize(
    ("seq", "problem"),
    [
        (0, "started of attempt 0, but -1 is the latest"),
        (2, "retried of attempt 1, but the task is ASSIGNED"),
        (3, "attempt 1 begins, but the task is failed"),
        (6, "attempt 1 succeeds before it has started"),
        (7, "by its story that of attempt 1 is open, but no lease is open"),
    ],
)
def test_a_move_without_the_one_before_it_is_refused(seq: int, problem: str) -> None:
    story = without(a_story(), seq)
    if seq == 7:
        story.row = story.row._replace(state=3)
    assert problem_of(story) == problem


@pytest.mark.parametrize("kind", ["killed", "unschedulable", "dead_lettered", "retried", "claimed"])
def test_a_finished_task_that_moves_again_is_refused(kind: str) -> None:
    for tell in STORIES:
        story, last = tell(), tell().events[-1]
        for attempt in (last.attempt, last.attempt + 1):
            more = Event(last.seq + 1, attempt, kind, at(99), 99)
            assert problem_of(renumbered(story, [*tell().events, more])), (attempt, last)


def test_what_follows_an_end_in_another_transaction_is_refused() -> None:
    for tell, seq in ((a_story, 3), (a_dead_letter, 3)):
        story = tell()
        late = story.events[seq]._replace(transaction=8)
        story.events[seq] = late
        assert problem_of(story) == f"{late.type} comes later than the end of the attempt"


def test_an_attempt_number_that_does_not_grow_by_one_is_refused() -> None:
    again = a_story()
    again.events[4] = again.events[4]._replace(attempt=0)
    assert problem_of(again) == "claimed names attempt 0 after attempt 0"
    beyond = a_story()
    beyond.events[3] = beyond.events[3]._replace(attempt=2)
    assert problem_of(beyond) == "retried names attempt 2 after attempt 0"
    old = a_wait()
    old.events[4] = old.events[4]._replace(attempt=0)
    assert problem_of(old) == "killed names attempt 0 after attempt 0"


def test_an_attempt_whose_record_is_not_as_its_events_say_is_refused() -> None:
    story = a_story()
    record = story.ended.pop(1)
    assert problem_of(story) == "attempt 1 ends, but no record of it is kept"
    for wrong in (record._replace(state=5), record._replace(at=at(39))):
        story.ended[1] = wrong
        assert problem_of(story) == "succeeded of attempt 1, but its record differs"
    story.ended[1] = record._replace(released_at=at(39))
    assert problem_of(story) == "attempt 1 is released before it has ended"
    story.ended |= {1: record, 2: record}
    assert problem_of(story) == "attempt 2 is recorded as ended, and no event tells of it"


def test_a_task_or_a_lease_that_is_not_as_its_story_says_is_refused() -> None:
    for wrong in (Row(3, 1, 8), Row(4, 2, 8), Row(4, 1, 9), Row()):
        story = a_story()
        story.row = wrong
        assert problem_of(story).endswith(f"but it is {wrong}")
    left = a_story()
    left.lease = Lease(1, is_ending=False, expires_at=at(61))
    said = "by its story no lease is open, but that of attempt 1 is open"
    assert problem_of(left) == said
    freed = a_dead_letter()
    freed.lease = None
    assert problem_of(freed) == "by its story that of attempt 0 is ending, but no lease is open"


def test_renewals_out_of_their_time_and_lost_ones_are_refused() -> None:
    early, late, lost, ending = a_story(), a_story(), a_story(), a_dead_letter()
    early.renewals = [Renewal(1, at(30), at(40))]
    assert problem_of(early) == "attempt 1 is renewed before it begins"
    late.renewals = [Renewal(0, at(31), at(40))]
    assert problem_of(late) == "attempt 0 is renewed after it was released"
    lost.renewals = [Renewal(0, at(15), at(50))]
    assert problem_of(lost) == "attempt 0 has lost a renewal"
    ending.renewals = [Renewal(0, at(12), at(30))]
    assert problem_of(ending) == ""
    ending.renewals = [Renewal(0, at(12), at(42))]
    assert problem_of(ending) == "attempt 0 has lost a renewal"


async def live_through(world: World) -> int:
    """Let tasks succeed, fail, expire, be cancelled before and while they run; returns one job."""
    job = await world.submit([1, 2, 3, 4, 5], max_retries_failure=1, verbose_events=True)
    claims = await world.claim(4)
    for claim in claims:
        await world.start(claim)
        await world.renew(claim)
    await world.succeed(claims[0])
    await world.fail(claims[1])
    await world.cancel_task(claims[2].task_id)
    await world.cancel_task(TaskId(job, 4))
    await world.pass_time(200)  # one lease is not renewed
    for claim in await world.claim(9):
        await world.start(claim)
        await world.succeed(claim)
    return job


async def test_what_a_ledger_has_recorded_are_steps_of_the_model(
    world: World, direct_url: str
) -> None:
    await live_through(world)
    steps, illegal = await trace.check_database(direct_url)
    assert illegal == []
    assert steps.keys() >= {trace.OPEN, trace.END, trace.RELEASE, trace.RENEW, trace.CANCEL}


async def test_what_a_ledger_has_recorded_but_for_one_event_is_refused(
    world: World, direct_url: str
) -> None:
    await live_through(world)
    connection = await connect(direct_url)
    recorded = await trace.read(connection)
    await connection.close()
    for task, story in recorded.items():
        for event in [*story.events]:
            story.events.remove(event)
            assert check({task: story})[1], (task, event)
            story.events.append(event)
    assert check(recorded)[1] == []


async def retry_while_ending(world: World) -> TaskId:
    """Let a task run into its timeout, so that its retry waits for a process to be gone."""
    job = await world.submit([1], timeout=8.0, max_retries_failure=1, backoff={"base": 0.0})
    [claim] = await world.claim()
    await world.start(claim)
    await world.pass_time(10)
    lease = await world.lease(claim.task_id)
    assert lease is not None
    assert lease["ending"]
    assert (await world.task(claim.task_id)).state == TaskState.PENDING
    return TaskId(job, 0)


async def test_a_retry_that_is_cancelled_before_the_release_is_a_step(
    world: World, direct_url: str
) -> None:
    await world.cancel_task(await retry_while_ending(world))
    _, illegal = await trace.check_database(direct_url)
    assert illegal == []


async def test_a_retry_that_is_dead_lettered_before_the_release_is_a_step(
    world: World, direct_url: str
) -> None:
    await dead_letter_task(world.ledger, await retry_while_ending(world), actor="ann")
    _, illegal = await trace.check_database(direct_url)
    assert illegal == []


async def test_a_retry_that_nobody_took_after_the_release_is_a_step(
    world: World, direct_url: str
) -> None:
    job = await world.submit(
        timeout=8.0, max_retries_failure=1, scheduling_timeout=20.0, backoff={"base": 0.0}
    )
    [claim] = await world.claim()
    await world.start(claim)
    await world.pass_time(80)
    assert await world.job_state(job) == TaskState.UNSCHEDULABLE
    _, illegal = await trace.check_database(direct_url)
    assert illegal == []


async def test_what_was_placed_are_steps_of_the_model(
    cluster: PlacedWorld, direct_url: str
) -> None:
    [first, _] = await cluster.add("w1", "w2")
    gang = await cluster.submit(replicas=2, coscheduling={}, verbose_events=True)
    await cluster.placed(gang)
    await cluster.die(first)
    await cluster.pass_time(150)
    await cluster.place()
    steps, illegal = await trace.check_database(direct_url)
    assert illegal == []
    assert steps[trace.OPEN] >= 3


async def test_a_planted_late_release_is_found_in_a_database(world: World, direct_url: str) -> None:
    job = await live_through(world)
    connection = await connect(direct_url)
    await connection.execute("set session_replication_role = replica")
    await connection.execute(
        "update holdfast.attempts set released_at = released_at + interval '1 hour' "
        "where task_index = 1 and attempt = 0"
    )
    _, [illegal] = check(await trace.read(connection))
    await connection.close()
    assert illegal.task == (job, 1)
    assert illegal.problem == "attempt 1 begins while 0 is unreleased"
    assert str(illegal).splitlines()[1].strip() == "open_lease: claimed of attempt 0"


def test_the_program_says_what_is_none(
    capsys: pytest.CaptureFixture[str], postgres: EmbeddedPostgres
) -> None:
    assert trace.main([postgres.url("template1").replace("template1", TEMPLATE)]) == 0
    assert capsys.readouterr().out == "0 steps, 0 tasks with what is no step of the model\n"
    for unreadable in (postgres.url("postgres"), "postgresql://nobody@/none?host=/nowhere"):
        assert trace.main([unreadable]) == 2
        assert "trace: " in capsys.readouterr().err
