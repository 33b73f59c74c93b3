"""Which time a job can expire at, and what is said of it."""

from typing import Any

import pytest

from holdfast.errors import Invalid
from holdfast.rules.submitting.expiry import check_expiry, say_expired
from holdfast.rules.submitting.submission import parse_spec

SPEC = {"entrypoint": {"function": "a:b"}}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"expires": 5.0},
        {"expires": 5.0, "not_before": 2e9},
        {"expires_at": 2e9, "not_before": 1e9},
        {"expires": 5.0, "start_delay": 4.0},
        {"expires_at": 1.0, "start_delay": 4.0},
    ],
)
def test_what_can_be_meant_is_taken(fields: dict[str, Any]) -> None:
    check_expiry(parse_spec(SPEC | fields))


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("expires", {"expires": 5.0, "expires_at": 2e9}),
        ("expires_at", {"expires_at": 2e9, "not_before": 2e9}),
        ("expires", {"expires": 5.0, "start_delay": 5.0}),
    ],
)
def test_what_could_never_start_is_refused(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        check_expiry(parse_spec(SPEC | fields))
    assert refused.value.field == field


def test_it_says_when() -> None:
    assert say_expired(parse_spec(SPEC | {"expires": 90.5})).endswith("within 90.5 s")
    said = say_expired(parse_spec(SPEC | {"expires_at": 86_400.0}))
    assert said == "expired: nobody started it before 1970-01-02 00:00:00 UTC"
