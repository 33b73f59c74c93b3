"""`client.overview` on a real server."""

from collections.abc import Callable

from holdfast.client.client import Client
from tests.client.namespaces.conftest import Face


def test_what_stands_in_line_is_counted(
    call: Face, client: Client, submit: Callable[..., str]
) -> None:
    submit()
    found = call(client.overview.get, 7200)
    assert (found.window_seconds, found.tasks.unserved, found.attention) == (7200, 1, [])
