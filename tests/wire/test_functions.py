"""Where functions are looked up."""

from urllib.parse import unquote

import pytest

from holdfast.wire.functions import LIST_PATH, function_path


@pytest.mark.parametrize("name", ["a.b:c", "a/b", "größe:übung"])
def test_a_function_is_one_step_of_the_path(name: str) -> None:
    path = function_path(name)
    assert path.count("/") == LIST_PATH.count("/") + 1
    assert unquote(path) == f"{LIST_PATH}/{name}"
