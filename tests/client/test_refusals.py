"""What the server refuses, raised again on the client's side: the same class, fields and text."""

import inspect

import msgspec
import pytest

from holdfast import errors
from holdfast.api.errors import (
    ForeignHost,
    ForeignOrigin,
    UnsupportedMediaType,
    body_of,
    describe,
    encode_error,
    status_of,
)
from holdfast.client.client import Client
from holdfast.client.refusals import ServerFailed, not_holdfast, read_error
from holdfast.model.limits.server_limits import ServerLimits
from holdfast.store.database import LockTimeout
from holdfast.wire.status import Changed

REFUSALS = [
    errors.Refused("this cannot be done"),
    errors.Invalid("timeout", "-1.0 is not more than 0"),
    errors.TooLarge("inputs[3]", 2_000_000, 1 << 20),
    errors.TooLarge("inputs", 20_000_000, 10_000_000, unit="inputs"),
    errors.Unauthenticated("this server asks for a token"),
    errors.NotAllowed("the token 'ci' lacks the role admin", lacks="role admin"),
    errors.NotFound("job", 4182),
    errors.NotFound("attempt of task", "4182.3"),
    errors.NotFound("live worker", "host-1a2b"),
    errors.KeyReused("invoice 7", 4182),
    errors.KeyReused("friday's", request="cut-over"),
    errors.KeyReused('it\'s "quoted" \\ and long\n', 7),
    errors.IllegalMove("task 4182.3", "SUCCEEDED", "dead-letter"),
    errors.IllegalMove("dead letter 4182.3", "discarded", "replay"),
    errors.IllegalMove("worker host-1a2b", "replaced", "register"),
    errors.IllegalMove("job 4182", "KILLED", "submit a child of"),
    errors.IllegalMove("endpoint a/b", "held by attempt 4182.3.0, which runs", "publish"),
    errors.IllegalMove("version 3 of dataset orders", "dropped", "read"),
    errors.NotFound("policy of type", "a b"),
    errors.TooLarge("what is sent", 9, 5, unit="of them"),
    errors.NotUnique(4182),
    errors.NotUnique(4182, has_started=True),
    errors.LeaseConflict("4182.3", "already_running"),
    errors.LeaseConflict(None, "worker host-1a2b was replaced"),
    errors.Unavailable("Postgres is away"),
    errors.Overloaded("10000 requests are waiting"),
    ServerLimits().refusal("connections_max", retry_after=3),
    errors.Stopping("this server is shutting down"),
]
# What never crosses the wire: outcomes of user code, and what keeps a server from starting.
AT_HOME = {
    errors.HoldfastError,
    errors.SchemaMismatch,
    errors.TaskFailed,
    errors.TaskError,
    errors.TransientError,
    errors.DependencyUnavailable,
    errors.PermanentError,
    errors.ValidationError,
    errors.RetryAfter,
    errors.SignalTimedOut,
}


def send(error: errors.HoldfastError) -> errors.HoldfastError:
    """Send an error over the wire."""
    return read_error(status_of(error), encode_error(body_of(error)))


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_an_error_arrives_as_it_was_raised(error: errors.HoldfastError) -> None:
    arrived = send(error)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


def test_every_error_that_is_sent_is_tried_here() -> None:
    declared = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.HoldfastError)
    }
    assert declared == {type(error) for error in REFUSALS} | AT_HOME


def test_a_body_of_another_kind_is_invalid_here() -> None:
    error = UnsupportedMediaType("text/plain")
    arrived = send(error)
    assert type(arrived) is errors.Invalid
    assert (vars(arrived), str(arrived)) == (vars(error), str(error))


@pytest.mark.parametrize(
    "error",
    [ForeignOrigin("https://evil.example"), ForeignHost("evil.example")],
    ids=["origin", "host"],
)
def test_a_server_that_is_not_meant_refuses_and_finds_nothing_wrong_with_the_request(
    error: errors.Invalid,
) -> None:
    arrived = send(error)
    assert (type(arrived), str(arrived)) == (errors.Refused, str(error))


def test_a_busy_row_is_something_to_try_again() -> None:
    assert type(send(LockTimeout("the row is held"))) is errors.Unavailable


def test_a_failing_server_is_told_from_one_that_is_away() -> None:
    arrived = read_error(500, encode_error(describe(ValueError("secret"))))
    assert type(arrived) is ServerFailed
    assert "secret" not in str(arrived)


def test_a_route_that_is_missing_is_not_found(client: Client) -> None:
    with pytest.raises(errors.NotFound, match="there is nothing at /api/x") as missing:
        client.loop_thread.run(client.read("/api/x", Changed))
    assert (missing.value.kind, missing.value.name) == ("route", "/api/x")


@pytest.mark.parametrize("code", ["method_not_allowed", "from_the_future"])
def test_a_code_that_is_not_known_is_a_refusal(code: str) -> None:
    body = {"error": {"code": code, "message": "no", "new_field": 1}}
    arrived = read_error(403, msgspec.json.encode(body))
    assert (type(arrived), str(arrived)) == (errors.Refused, "no")


@pytest.mark.parametrize(
    "code", ["too_large", "key_reused", "illegal_move", "lease_conflict", "invalid"]
)
def test_an_error_without_its_details_still_has_its_class(code: str) -> None:
    arrived = read_error(400, msgspec.json.encode({"error": {"code": code, "message": "no"}}))
    assert isinstance(arrived, errors.Refused)
    assert type(arrived) is not errors.Refused
    assert str(arrived) == "no"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (502, errors.Unavailable),
        (503, errors.Unavailable),
        (504, errors.Unavailable),
        (429, errors.Unavailable),
        (500, ServerFailed),
        (404, errors.Refused),
        (407, errors.Refused),
        (302, errors.Refused),
        (200, errors.Refused),
    ],
)
def test_a_stranger_that_answers_is_recognized(status: int, kind: type) -> None:
    arrived = read_error(status, b"<html>a proxy \xff" + b"x" * 1000)
    assert type(arrived) is kind
    assert "not Holdfast" in str(arrived)
    assert len(str(arrived)) < 400
    assert repr(arrived) == repr(not_holdfast(status, b"<html>a proxy \xff" + b"x" * 1000))
