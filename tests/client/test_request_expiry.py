"""Until when what is submitted has to be started."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.client.request import request_call, request_command
from holdfast.errors import Invalid
from tests.client import app
from tests.client.test_request import sent


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"expires": 90}, {"expires": 90.0}),
        ({"expires": timedelta(hours=1)}, {"expires": 3600.0}),
        ({"expires": datetime(2026, 11, 18, 9, tzinfo=UTC)}, {"expires_at": 1_794_992_400.0}),
        ({"expires_at": 7.0}, {"expires_at": 7.0}),
        ({"expires": None}, {}),
    ],
)
def test_what_nobody_has_started_may_expire(given: Any, said: dict[str, float]) -> None:
    for request in (
        request_call(app.greet.with_options(**given), ("Ada",), {}),
        request_command(["true"], given),
    ):
        told = sent(request)
        assert {name: told[name] for name in ("expires", "expires_at") if name in told} == said


def test_the_last_word_on_expiry_counts() -> None:
    until = app.greet.with_options(expires=datetime(2026, 11, 18, tzinfo=UTC))
    request = request_call(until.with_options(expires=5), ("Ada",), {})
    assert (request.expires, request.expires_at) == (5.0, None)
    with pytest.raises(Invalid, match=r"expires: .* use seconds or a timedelta"):
        app.greet.with_options(expires="soon")  # type: ignore[arg-type]
