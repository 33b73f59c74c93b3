"""The order of calls: by time, whoever was rung for soon, nobody twice and nobody forgotten."""

import random
from uuid import uuid4

import pytest

from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.services.leading.call_queue import CalledWorker, CallQueue


def a_worker(worker_id: str, *, next_at: float, called_at: float = 0.0) -> CalledWorker:
    worker = CalledWorker(worker_id)
    worker.next_at, worker.called_at = next_at, called_at
    return worker


def queue_of(*workers: CalledWorker) -> CallQueue:
    queue = CallQueue()
    for worker in workers:
        queue.put(worker)
    return queue


def test_who_is_due_is_taken_once_in_the_order_of_time() -> None:
    late, later, early = (a_worker(str(at), next_at=at) for at in (2, 3, 1))
    queue = queue_of(late, later, early)
    assert queue.next_at() == 1
    assert queue.take(2, 10) == [early, late]
    assert queue.take(2, 10) == []
    assert queue.next_at() == 3


def test_no_more_are_taken_than_asked_for() -> None:
    workers = [a_worker(str(at), next_at=at) for at in range(5)]
    queue = queue_of(*workers)
    assert [queue.take(9, 2) for _ in range(4)] == [workers[:2], workers[2:4], workers[4:], []]
    assert queue.next_at() == float("inf")


def test_who_is_rung_for_is_due_at_once() -> None:
    rung, other = a_worker("rung", next_at=100, called_at=10), a_worker("other", next_at=50)
    queue = queue_of(rung, other)
    rung.is_rung = True
    for _ in range(3):
        queue.put(rung)
    assert queue.take(9, 10) == []
    assert queue.take(10, 10) == [rung]
    assert queue.take(200, 10) == [other]


def test_who_is_dropped_is_not_called() -> None:
    gone, other = a_worker("gone", next_at=1), a_worker("other", next_at=2)
    queue = queue_of(gone, other)
    queue.drop([gone])
    assert queue.next_at() == 2
    assert queue.take(9, 10) == [other]


@pytest.mark.parametrize("seed", range(20))
def test_it_finds_what_a_look_at_all_workers_finds(seed: int) -> None:
    chance = random.Random(seed)
    workers = [a_worker(str(number), next_at=chance.random()) for number in range(20)]
    queue, waiting, now = queue_of(*workers), set(workers), 0.0
    for _ in range(200):
        now += chance.random() / 10
        worker = chance.choice(workers)
        match chance.choice(("ring", "put", "drop", "take")):
            case "ring":
                worker.is_rung = True
                queue.put(worker)
                waiting.add(worker)
            case "put":
                worker.is_rung, worker.called_at = False, now
                worker.next_at = now + chance.random()
                queue.put(worker)
                waiting.add(worker)
            case "drop":
                queue.drop([worker])
                waiting.discard(worker)
            case "take":
                due = {each for each in waiting if each.due_at <= now}
                taken = queue.take(now, 100)
                assert set(taken) == due
                assert len(taken) == len(due)
                assert sorted(taken, key=lambda each: each.due_at) == taken
                waiting -= due
        expected = min((each.due_at for each in waiting), default=float("inf"))
        assert queue.next_at() == expected


A, B, C = (Fence(TaskId(1, index), 0, uuid4()) for index in range(3))


def offered_by_calls(worker: CalledWorker, *calls: str, sent: bool = True) -> frozenset[Fence]:
    """Make calls, each named by what it offers and, in small letters, what is ending by then."""
    known = {"A": A, "B": B, "C": C}
    for call in calls:
        offered = frozenset(known[letter] for letter in call if letter.isupper())
        new = worker.offer(offered, frozenset(known[letter.upper()] for letter in call))
        if not sent:
            worker.take_back(new)
    assert worker.offered is not None
    return worker.offered


def test_what_no_call_can_have_brought_is_known() -> None:
    worker = CalledWorker("w1")
    # Before our first call, another leader may have offered anything.
    assert offered_by_calls(worker, "A", sent=False) == {A}
    assert offered_by_calls(worker, "AB", "AB", sent=False) == {A}
    assert offered_by_calls(worker, "AB") == {A, B}  # it was sent, or broke on the way
    assert offered_by_calls(worker, "ABC", sent=False) == {A, B}
    assert offered_by_calls(worker, "") == set()
    assert offered_by_calls(worker, "C", sent=False) == set()


def test_what_may_have_arrived_is_remembered_when_it_is_to_end() -> None:
    worker = CalledWorker("w1")
    assert offered_by_calls(worker, "Ab") == {A, B}
    assert offered_by_calls(worker, "abc") == {A, B}
    assert offered_by_calls(worker, "bc", sent=False) == {B}


def test_what_two_answers_in_a_row_did_not_name_is_known() -> None:
    worker = CalledWorker("w1")
    assert worker.note_unnamed(frozenset({A})) == set()
    assert worker.note_unnamed(frozenset({A, B})) == {A}
    assert worker.note_unnamed(frozenset()) == set()
    assert worker.note_unnamed(frozenset({B})) == set()
