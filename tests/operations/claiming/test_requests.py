"""Requests for tasks: what is wrong with some, and what tells one from another."""

import pytest

from holdfast.errors import Invalid
from holdfast.model.work.ids import TaskId
from holdfast.model.workers.resources import Capacity
from holdfast.operations.claiming.requests import ClaimRequest, check_request

BAD_REQUESTS = [
    ("worker_id", ClaimRequest("", ("q",))),
    ("worker_id", ClaimRequest("a\x00b", ("q",))),
    ("worker_id", ClaimRequest("w" * 129, ("q",))),
    ("queues", ClaimRequest("w1")),
    ("queues", ClaimRequest("w1", ("q", "q"))),
    ("queues", ClaimRequest("w1", ("q\x00",))),
    ("queues", ClaimRequest("w1", tuple(f"q{i}" for i in range(101)))),
    ("queues", ClaimRequest("w1", ("q",), task_id=TaskId(1, 0))),
    ("max_tasks", ClaimRequest("w1", ("q",), 0)),
    ("max_tasks", ClaimRequest("w1", ("q",), 1001)),
    ("task_id", ClaimRequest("w1", task_id=TaskId(0, 0))),
    ("task_id", ClaimRequest("w1", task_id=TaskId(2**63, 0))),
    ("task_id", ClaimRequest("w1", task_id=TaskId(1, -1))),
    ("task_id", ClaimRequest("w1", task_id=TaskId("1", 0))),  # type: ignore[arg-type]
    ("idempotency_key", ClaimRequest("w1", ("q",), idempotency_key="\x00")),
    ("idempotency_key", ClaimRequest("w1", ("q",), idempotency_key="k" * 257)),
    ("idempotency_key", ClaimRequest("w1", ("q",), idempotency_key="")),
    ("free.cpu", ClaimRequest("w1", ("q",), free=Capacity(cpu=-1.0))),
    ("capacity.memory", ClaimRequest("w1", ("q",), capacity=Capacity(memory=1 << 62))),
    ("book", ClaimRequest("w1", ("q",), book="no name")),
    ("free", ClaimRequest("w1", ("q",), free=Capacity(), book="b")),
]


@pytest.mark.parametrize(("field", "request_"), BAD_REQUESTS)
def test_a_bad_request_is_refused_by_its_field(field: str, request_: ClaimRequest) -> None:
    problem = check_request(request_)
    assert isinstance(problem, Invalid)
    assert problem.field == field


def test_a_repeat_may_say_something_else_of_its_room() -> None:
    request = ClaimRequest("w1", ("q",), 3)
    assert check_request(request) is None
    assert request.digest == request._replace(free=Capacity(cpu=1.0)).digest
    assert request.digest != request._replace(max_tasks=4).digest
