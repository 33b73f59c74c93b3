"""What was recorded is checked against the steps of the model, and what is none is refused."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.model.work.ids import TaskId
from protocol import trace
from protocol.trace import Ended, Event, Renewal, Story, check
from tests.databases import TEMPLATE, connect
from tests.placed_world import PlacedWorld
from tests.world import World

MODELS = Path(trace.__file__).parent
START = datetime(2030, 1, 1, tzinfo=UTC)
TASK = (7, 0)


def at(seconds: float) -> datetime:
    """Name a moment."""
    return START + timedelta(seconds=seconds)


def a_story() -> Story:
    """Tell of a task whose first attempt ran into its timeout, and whose second one succeeded."""
    return Story(
        events=[
            Event(1, 0, "claimed", at(0)),
            Event(2, 0, "started", at(1)),
            Event(3, 0, "failed", at(20), "ran longer than its timeout of 19 s"),
            Event(4, 0, "retried", at(20)),
            Event(5, 1, "claimed", at(31)),
            Event(6, 1, "building", at(32)),
            Event(7, 1, "started", at(33)),
            Event(8, 1, "succeeded", at(40)),
        ],
        ended={
            0: Ended(0, "w1", at(45), at(30)),
            1: Ended(1, "w2", at(61), at(40)),
        },
        renewals=[Renewal(0, at(15), at(45))],
    )


def problem_of(story: Story) -> str:
    """Say what is no step of the model."""
    _, illegal = check({TASK: story})
    return illegal[0].problem if illegal else ""


def without(story: Story, seq: int) -> Story:
    """Lose an event, and close the gap."""
    left = [event for event in story.events if event.seq != seq]
    story.events = [event._replace(seq=n) for n, event in enumerate(left, 1)]
    return story


def test_a_sound_story_is_told_in_steps_of_the_model() -> None:
    steps, illegal = check({TASK: a_story()})
    assert illegal == []
    assert dict(steps) == {
        "open_lease": 2, "report": 3, "end_attempt": 1, "after_attempt": 1, "release": 1,
        "end_and_release": 1, "renew_transaction": 1,
    }  # fmt: skip


def test_every_step_stands_in_a_model() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in MODELS.glob("*.pml"))
    inlines = set(re.findall(r"^inline (\w+)\(", text, re.MULTILINE))
    named = {trace.OPEN, trace.END, trace.END_AND_RELEASE, trace.RELEASE, trace.AFTER, trace.RENEW}
    assert named <= inlines
    assert not trace.NOT_INLINE & inlines


def test_an_attempt_that_begins_while_another_is_unreleased_is_refused() -> None:
    story = a_story()
    story.ended[0] = story.ended[0]._replace(released_at=at(35))
    assert problem_of(story) == "another attempt begins while 0 is unreleased"
    story.ended[0] = story.ended[0]._replace(released_at=None)
    assert problem_of(story) == "another attempt begins while 0 is unreleased"


def test_a_lease_that_expires_before_its_time_is_refused() -> None:
    story = a_story()
    story.events[2] = story.events[2]._replace(type="worker_failed", cause="lease expired")
    assert problem_of(story) == "the lease of attempt 0 expires before its time"
    story.ended[0] = story.ended[0]._replace(expired_at=at(19))
    story.renewals = []
    assert problem_of(story) == ""


def test_an_event_twice_or_lost_or_late_is_refused() -> None:
    twice = a_story()
    twice.events.append(Event(9, 1, "succeeded", at(41)))
    assert "the task is succeeded" in problem_of(twice)
    lost = a_story()
    del lost.events[3]
    assert problem_of(lost) == "claimed is number 5 after 3"
    late = a_story()
    late.events[1] = late.events[1]._replace(at=at(25))
    assert problem_of(late) == "failed is earlier than what comes before it"


@pytest.mark.parametrize(
    ("seq", "problem"),
    [
        (1, "started of attempt 0, but -1 is the latest"),
        (3, "retried of attempt 0, but the task is ASSIGNED"),
        (4, "attempt 1 begins, but the task is failed"),
        (7, "attempt 1 succeeds before it has started"),
    ],
)
def test_a_move_without_the_one_before_it_is_refused(seq: int, problem: str) -> None:
    assert problem_of(without(a_story(), seq)) == problem


def test_an_attempt_number_that_does_not_grow_is_refused() -> None:
    story = a_story()
    story.events = [event._replace(attempt=0) for event in story.events]
    story.ended[0] = story.ended[0]._replace(released_at=at(20))
    assert problem_of(story) == "attempt 0 begins after attempt 0"


def test_an_end_without_its_record_and_a_lease_beside_the_story_are_refused() -> None:
    story = a_story()
    del story.ended[1]
    assert problem_of(story) == "attempt 1 ends, but no record of it is kept"
    left = a_story()
    left.open = (1, False)
    said = "by its story no lease is open, but that of attempt 1 is open"
    assert problem_of(left) == said


def test_renewals_out_of_their_time_and_lost_ones_are_refused() -> None:
    early, late, lost = a_story(), a_story(), a_story()
    early.renewals = [Renewal(1, at(30), at(40))]
    assert problem_of(early) == "attempt 1 is renewed before it begins"
    late.renewals = [Renewal(0, at(31), at(40))]
    assert problem_of(late) == "attempt 0 is renewed after it was released"
    lost.renewals = [Renewal(0, at(15), at(50))]
    assert problem_of(lost) == "attempt 0 has lost a renewal"


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
    assert illegal.problem == "another attempt begins while 0 is unreleased"
    assert str(illegal).splitlines()[1].strip() == "open_lease: claimed of attempt 0"


def test_the_program_says_what_is_none(
    capsys: pytest.CaptureFixture[str], postgres: EmbeddedPostgres
) -> None:
    assert trace.main([postgres.url("template1").replace("template1", TEMPLATE)]) == 0
    assert capsys.readouterr().out == "0 steps, 0 tasks with what is no step of the model\n"
    assert trace.main(["postgresql://nobody@/none?host=/nowhere"]) == 2
    assert "trace: " in capsys.readouterr().err
