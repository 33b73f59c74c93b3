"""Errors as HTTP answers: every exception has a status, a code and the shape of all others."""

import logging

import msgspec
import pytest

from holdfast import errors
from holdfast.api.errors import (
    INTERNAL,
    ForeignOrigin,
    UnsupportedMediaType,
    body_of,
    describe,
    encode_error,
    status_of,
)
from holdfast.model.limits.server_limits import ServerLimits
from holdfast.store.database import LockTimeout
from holdfast.wire.answers import ErrorBody

CASES = [
    (errors.Invalid("name", "is empty"), 400, "invalid", "name", {"problem": "is empty"}),
    (
        errors.TooLarge("name", 9, 5),
        413,
        "too_large",
        "name",
        {
            "problem": "9 bytes is over the limit of 5 bytes",
            "size": 9,
            "limit": 5,
            "unit": "bytes",
        },
    ),
    (errors.Unauthenticated("show a token"), 401, "unauthenticated", None, None),
    (
        errors.NotAllowed("not yours", lacks="role admin"),
        403,
        "not_allowed",
        None,
        {"lacks": "role admin"},
    ),
    (errors.NotFound("job", 7), 404, "not_found", None, {"kind": "job", "name": "7"}),
    (
        errors.KeyReused("k", 7),
        409,
        "key_reused",
        "idempotency_key",
        {"key": "k", "job_id": "7", "request": "submit"},
    ),
    (
        errors.KeyReused("k", request="cancel"),
        409,
        "key_reused",
        "idempotency_key",
        {"key": "k", "job_id": None, "request": "cancel"},
    ),
    (errors.NotUnique(7), 409, "not_unique", "unique", {"job_id": "7"}),
    (
        errors.IllegalMove("task 7.0", "KILLED", "x"),
        409,
        "illegal_move",
        None,
        {"subject": "task 7.0", "state": "KILLED", "request": "x"},
    ),
    (
        errors.LeaseConflict("7.0", "finished"),
        409,
        "lease_conflict",
        None,
        {"reason": "finished", "task_id": "7.0"},
    ),
    (errors.Refused("no"), 409, "refused", None, None),
    (errors.Overloaded("slow"), 429, "overloaded", None, None),
    (
        ServerLimits().refusal("streams_max"),
        429,
        "limit_reached",
        None,
        {"limit": "streams_max", "maximum": 256, "setting": "--streams-max", "retry_after": 1},
    ),
    (errors.Stopping("bye"), 503, "stopping", None, None),
    (errors.SchemaMismatch("old"), 503, "unavailable", None, None),
    (errors.Unavailable("later"), 503, "unavailable", None, None),
    (LockTimeout("held"), 503, "busy", None, None),
    (
        ForeignOrigin("https://a.example"),
        403,
        "forbidden",
        "Origin",
        {"problem": "https://a.example is not this server; no other site may call it"},
    ),
    (
        UnsupportedMediaType("text/plain"),
        415,
        "unsupported_media_type",
        "Content-Type",
        {"problem": "is text/plain; send application/json"},
    ),
]


@pytest.mark.parametrize(
    ("error", "status", "code", "field", "details"), CASES, ids=[case[2] for case in CASES]
)
def test_each_error_has_its_status_and_code(
    error: errors.HoldfastError, status: int, code: str, field: str | None, details: object
) -> None:
    assert status_of(error) == status
    assert body_of(error) == ErrorBody(code, str(error), field, details)  # type: ignore[arg-type]


def test_every_refusal_and_every_outage_is_in_the_table() -> None:
    tried = {type(case[0]) for case in CASES}
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.Refused | errors.Unavailable):
            assert kind in tried, kind


def test_absent_parts_are_left_out() -> None:
    content = encode_error(ErrorBody("refused", "no"))
    assert msgspec.json.decode(content) == {"error": {"code": "refused", "message": "no"}}


def test_what_went_wrong_with_one_of_many_is_told_in_the_same_shape() -> None:
    assert describe(errors.LeaseConflict("7.0", "lost")).code == "lease_conflict"


def test_what_is_ours_alone_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    assert describe(AssertionError("a secret")) == INTERNAL
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert "a secret" in str(record.exc_info[1])
