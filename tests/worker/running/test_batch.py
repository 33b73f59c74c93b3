"""What a batched function may return."""

import pytest

from holdfast.errors import PermanentError
from holdfast.worker.running.batch import read_answers


def test_there_is_one_answer_for_each_task() -> None:
    assert read_answers([1, None], 2) == [1, None]
    assert read_answers((1,), 1) == [1]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([1], "returned 1 results for 2 tasks"),
        ([1, 2, 3], "returned 3 results for 2 tasks"),
        (None, "returned a NoneType; return a list"),
        ("ab", "returned a str; return a list"),
        ({1: 2, 3: 4}, "returned a dict; return a list"),
    ],
)
def test_anything_else_is_an_error_of_the_function(value: object, problem: str) -> None:
    with pytest.raises(PermanentError, match=problem):
        read_answers(value, 2)
