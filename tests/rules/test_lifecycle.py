"""The table of legal moves: every pair of states, and the invariant that the table must keep."""

from itertools import product

import pytest

from holdfast.model.work.states import ENDED_STATES, OPEN_STATES, TaskState
from holdfast.rules.lifecycle import (
    EVENT_TYPES,
    LEGAL_JOB_MOVES,
    LEGAL_MOVES,
    RANK,
    is_ahead,
    mermaid,
    successors_mask,
)

# The specification's section 2, pair by pair. Success is told only by user code that has started:
# a completion without a reported start records the start first.
LEGAL = {
    ("PENDING", "ASSIGNED"),
    ("PENDING", "KILLED"),
    ("PENDING", "UNSCHEDULABLE"),
    ("PENDING", "DEAD_LETTERED"),
    ("ASSIGNED", "BUILDING"),
    ("ASSIGNED", "RUNNING"),
    ("ASSIGNED", "FAILED"),
    ("ASSIGNED", "KILLED"),
    ("ASSIGNED", "WORKER_FAILED"),
    ("BUILDING", "RUNNING"),
    ("BUILDING", "FAILED"),
    ("BUILDING", "KILLED"),
    ("BUILDING", "WORKER_FAILED"),
    ("RUNNING", "SUCCEEDED"),
    ("RUNNING", "FAILED"),
    ("RUNNING", "KILLED"),
    ("RUNNING", "WORKER_FAILED"),
    ("FAILED", "PENDING"),
    ("FAILED", "DEAD_LETTERED"),
    ("WORKER_FAILED", "PENDING"),
    ("WORKER_FAILED", "DEAD_LETTERED"),
    ("KILLED", "DEAD_LETTERED"),
}
PAIRS = list(product(TaskState, TaskState))


@pytest.mark.parametrize(("start", "end"), PAIRS, ids=lambda state: state.name)
def test_a_move_is_legal_exactly_where_the_specification_says(
    start: TaskState, end: TaskState
) -> None:
    assert (end in LEGAL_MOVES[start]) == ((start.name, end.name) in LEGAL)


def test_every_state_has_its_line_in_every_table() -> None:
    assert set(LEGAL_MOVES) == set(RANK) == set(EVENT_TYPES) == set(TaskState)


@pytest.mark.parametrize(("start", "end"), PAIRS, ids=lambda state: state.name)
def test_a_legal_move_raises_the_rank_or_begins_the_next_attempt(
    start: TaskState, end: TaskState
) -> None:
    if end in LEGAL_MOVES[start] and end is not TaskState.PENDING:
        assert RANK[end] > RANK[start]
    if end in LEGAL_MOVES[start] and end is TaskState.PENDING:
        assert start in {TaskState.FAILED, TaskState.WORKER_FAILED}


@pytest.mark.parametrize(
    ("state", "rank"),
    [
        ("PENDING", 0),
        ("ASSIGNED", 1),
        ("BUILDING", 2),
        ("RUNNING", 3),
        ("SUCCEEDED", 4),
        ("FAILED", 4),
        ("KILLED", 4),
        ("WORKER_FAILED", 4),
        ("DEAD_LETTERED", 5),
        ("UNSCHEDULABLE", 5),
    ],
)
def test_ranks_are_those_of_the_specification(state: str, rank: int) -> None:
    assert RANK[TaskState[state]] == rank


def test_the_tables_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        LEGAL_MOVES[TaskState.SUCCEEDED] = frozenset(TaskState)  # type: ignore[index]


@pytest.mark.parametrize("state", TaskState, ids=lambda state: state.name)
def test_the_mask_holds_one_bit_per_successor(state: TaskState) -> None:
    mask = successors_mask(state)
    assert {to for to in TaskState if mask >> to & 1} == set(LEGAL_MOVES[state])
    assert mask < 1 << 11


@pytest.mark.parametrize(("reported", "recorded"), list(product(sorted(OPEN_STATES), repeat=2)))
def test_a_report_brings_news_only_from_further_along(
    reported: TaskState, recorded: TaskState
) -> None:
    order = [TaskState.ASSIGNED, TaskState.BUILDING, TaskState.RUNNING]
    assert is_ahead(reported, recorded) == (order.index(reported) > order.index(recorded))


@pytest.mark.parametrize("ended", sorted(ENDED_STATES), ids=lambda state: state.name)
@pytest.mark.parametrize("reported", sorted(OPEN_STATES), ids=lambda state: state.name)
def test_a_report_of_an_ended_attempt_is_no_news(reported: TaskState, ended: TaskState) -> None:
    assert not is_ahead(reported, ended)


@pytest.mark.parametrize(("start", "end"), PAIRS, ids=lambda state: state.name)
def test_a_job_starts_once_and_ends_once(start: TaskState, end: TaskState) -> None:
    live = {TaskState.PENDING, TaskState.RUNNING}
    starts = (start, end) == (TaskState.PENDING, TaskState.RUNNING)
    ends = start in live and end in ENDED_STATES
    assert (end in LEGAL_JOB_MOVES.get(start, frozenset())) == (starts or ends)


def test_event_types_are_those_of_the_specification() -> None:
    assert set(EVENT_TYPES.values()) == {
        "claimed", "building", "started", "succeeded", "failed", "worker_failed", "killed",
        "retried", "unschedulable", "dead_lettered",
    }  # fmt: skip
    assert EVENT_TYPES[TaskState.PENDING] == "retried"
    assert EVENT_TYPES[TaskState.RUNNING] == "started"


def test_the_diagram_draws_every_legal_move_and_no_other() -> None:
    lines = mermaid().splitlines()
    assert lines[0] == "stateDiagram-v2"
    arrows = [tuple(line.strip().split(" --> ")) for line in lines[1:]]
    assert len(arrows) == len(set(arrows))
    between_states = {arrow for arrow in arrows if "[*]" not in arrow}
    assert between_states == LEGAL
    ends = {start for start, end in arrows if end == "[*]"}
    assert ends == {state.name for state in ENDED_STATES}
    assert ("[*]", "PENDING") in arrows
