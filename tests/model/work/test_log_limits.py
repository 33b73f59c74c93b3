"""What is said in the place of output that is not kept."""

import pytest

from holdfast.model.work.log_limits import describe_left_out

LINE = b"[7 bytes of output are left out here]\n"


@pytest.mark.parametrize(
    ("before", "said"), [(b"", LINE), (b"a\n", LINE), (b"50%\r", LINE), (b"a", b"\n" + LINE)]
)
def test_what_is_left_out_is_said_in_a_line_of_its_own(before: bytes, said: bytes) -> None:
    assert describe_left_out(7, before=before) == said
