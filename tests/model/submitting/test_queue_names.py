"""Names of queues."""

import pytest

from holdfast.errors import Refused
from holdfast.model.submitting.queue_names import check_queue_name


@pytest.mark.parametrize("queue", ["", "bad name!", ".hidden", "a\x00", "a\n", "q" * 257])
def test_what_no_queue_can_be_called_is_refused(queue: str) -> None:
    with pytest.raises(Refused, match="queue"):
        check_queue_name(queue)


def test_letters_digits_and_some_marks_make_a_name() -> None:
    check_queue_name("Team-1/mail.out:v2_x")
