"""Where limits are looked up."""

from urllib.parse import unquote

import pytest

from holdfast.wire.limits import LIST_PATH, limit_path


@pytest.mark.parametrize("name", ["stripe", "a/b", "..", "a?b#c d", "me@home"])
def test_a_limit_is_one_step_of_the_path(name: str) -> None:
    path = limit_path(name)
    assert path.count("/") == LIST_PATH.count("/") + 1
    assert unquote(path) == f"{LIST_PATH}/{name}"
