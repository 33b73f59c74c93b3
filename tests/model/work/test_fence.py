"""Fences: what a worker presents, and what is refused as one."""

from typing import Any
from uuid import uuid4

import pytest

from holdfast.errors import Invalid
from holdfast.model.work.fence import Fence, check_fence
from holdfast.model.work.ids import TaskId


def test_a_fence_of_the_right_shape_is_taken() -> None:
    check_fence(Fence(TaskId(1, 0), 0, uuid4()))


@pytest.mark.parametrize(
    ("fence", "field"),
    [
        (Fence(TaskId(0, 0), 0, uuid4()), "task_id"),
        (Fence(TaskId(1, 0), -1, uuid4()), "attempt"),
        (Fence(TaskId(1, 0), 0, "no token"), "lease_token"),  # type: ignore[arg-type]
    ],
)
def test_any_other_is_refused(fence: Any, field: str) -> None:
    with pytest.raises(Invalid, match=field):
        check_fence(fence)
