"""Where endpoints are looked up."""

from urllib.parse import unquote

import pytest

from holdfast.wire.endpoints import LIST_PATH, endpoint_path


@pytest.mark.parametrize("name", ["db", "models/ranker", "a/../b", "a:1", "..", "a?b#c d", ""])
def test_a_name_is_one_step_of_the_path(name: str) -> None:
    path = endpoint_path(name)
    assert path.count("/") == LIST_PATH.count("/") + 1
    assert "?" not in path
    assert unquote(path) == f"{LIST_PATH}/{name}"
