"""What both ends of SQS agree on, and what its connection says when SQS is not there."""

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import Invalid
from holdfast.model.work.ids import TaskId
from holdfast.wire.sqs import (
    NAME_LENGTH_MAX,
    SqsConnection,
    SqsUnavailable,
    decode_hint,
    encode_hint,
    queue_name,
)
from tests.sqs import (
    PATIENCE_SECONDS,
    Sqs,
    aws_fixture,
    find_free_port,
    http,
    sqs_endpoint_fixture,
    sqs_fixture,
    stranger,
)

__all__ = ["aws_fixture", "sqs_endpoint_fixture", "sqs_fixture"]

QUEUES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,19}", fullmatch=True)
# Few letters, and those of the escapes among them: names that are nearly the same.
SIMILAR = st.text("adcs_.:/-", min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("queue", "name"),
    [
        ("default", "holdfast-default"),
        ("GPU-large", "holdfast-GPU-large"),
        ("team/a.b:c_d", "holdfast-team_sa_db_cc__d"),
    ],
)
def test_a_queue_has_a_name_that_people_recognise(queue: str, name: str) -> None:
    assert queue_name(queue) == name


@settings(deadline=None)
@given(QUEUES)
def test_every_queue_has_a_name_that_sqs_takes(queue: str) -> None:
    name = queue_name(queue)
    assert len(name) <= NAME_LENGTH_MAX
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@settings(deadline=None)
@given(SIMILAR, SIMILAR)
def test_two_queues_never_share_a_name(one: str, other: str) -> None:
    assert (queue_name(one) == queue_name(other)) == (one == other)


def test_a_name_of_eighty_characters_is_the_longest() -> None:
    assert len(queue_name("q" * 71)) == 80
    with pytest.raises(Invalid, match=r"queue: .*81 characters.*shorten the queue's name"):
        queue_name("q" * 72)


def test_what_is_escaped_counts_as_it_is_written_for_sqs() -> None:
    with pytest.raises(Invalid, match="shorten"):
        queue_name("." * 40)


@pytest.mark.parametrize("queue", ["", "a b", "ä", "a\n", "a*"])
def test_what_is_no_queue_name_is_refused(queue: str) -> None:
    with pytest.raises(Invalid, match=r"queue: .*use letters"):
        queue_name(queue)


@pytest.mark.parametrize("prefix", ["a.b", "a b", "ä-"])
def test_a_prefix_that_sqs_would_refuse_is_refused_here(prefix: str) -> None:
    with pytest.raises(Invalid, match=r"sqs_prefix: .*use letters"):
        queue_name("default", prefix)


def test_a_prefix_may_be_empty() -> None:
    assert queue_name("default", "") == "default"


@settings(deadline=None)
@given(st.integers(1, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_a_hint_is_read_as_it_was_written(job_id: int, task_index: int) -> None:
    assert decode_hint(encode_hint(TaskId(job_id, task_index))) == TaskId(job_id, task_index)


def test_a_hint_says_the_task_and_nothing_else() -> None:
    assert encode_hint(TaskId(4182, 3)) == '{"task_id":"4182.3"}'


def test_a_reader_passes_over_what_it_does_not_know() -> None:
    assert decode_hint('{"task_id": "4182.3", "sent_by": {"name": "x"}}') == TaskId(4182, 3)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "4182.3",
        "[]",
        "{}",
        '{"task_id": 4182}',
        '{"task_id": null}',
        '{"task_id": "4182"}',
        '{"task_id": "4182.3.1"}',
        '{"task_id": "0.0"}',
        '{"task_id": "4182.3"',
        "\ud800",
        pytest.param('{"x":' + "[" * 100_000, id="deep"),
    ],
)
def test_a_body_that_is_no_hint_is_refused(body: str) -> None:
    with pytest.raises(Invalid, match=r"(body|task_id): .*write it like|task_id: .*whole number"):
        decode_hint(body)


def try_for_url(connection: SqsConnection) -> str:
    """Ask again until the connection has recovered."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask_for_url(connection)
        except SqsUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def ask_for_url(connection: SqsConnection, queue: str = "default") -> str:
    return connection.call(queue, lambda _, url: url)


@contextmanager
def connection_to(
    endpoint_url: str | None, prefix: str = "t-", answer_seconds: float = 5.0
) -> Iterator[SqsConnection]:
    connection = SqsConnection(
        prefix=prefix, endpoint_url=endpoint_url, answer_seconds=answer_seconds
    )
    try:
        yield connection
    finally:
        connection.close()


def test_a_queue_that_does_not_exist_is_created_for_messages_that_soon_are_useless(
    sqs: Sqs,
) -> None:
    with connection_to(sqs.endpoint_url, sqs.prefix) as connection:
        url = ask_for_url(connection)
    assert url == sqs.url("default")
    found = sqs.client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (found["VisibilityTimeout"], found["MessageRetentionPeriod"]) == ("120", "86400")


def test_a_queue_that_an_operator_made_is_used_as_it_is(sqs: Sqs) -> None:
    name = queue_name("default", sqs.prefix)
    attributes = {"VisibilityTimeout": "7"}
    made = sqs.client.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "7"})
    with connection_to(sqs.endpoint_url, sqs.prefix) as connection:
        assert ask_for_url(connection) == made["QueueUrl"]
    found = sqs.client.get_queue_attributes(QueueUrl=made["QueueUrl"], AttributeNames=["All"])
    assert attributes.items() <= found["Attributes"].items()


def test_a_queue_that_was_deleted_meanwhile_is_created_again(sqs: Sqs) -> None:
    with connection_to(sqs.endpoint_url, sqs.prefix) as connection:
        sqs.client.delete_queue(QueueUrl=ask_for_url(connection))
        connection.call(
            "default", lambda client, url: client.send_message(QueueUrl=url, MessageBody="x")
        )
    assert sqs.url("default")


def test_what_sqs_refuses_is_said_with_its_reason(sqs: Sqs) -> None:
    with connection_to(sqs.endpoint_url, sqs.prefix) as connection:
        with pytest.raises(SqsUnavailable, match=r"ReceiptHandle.*what they allow"):
            connection.call(
                "default",
                lambda client, url: client.delete_message(QueueUrl=url, ReceiptHandle="nonsense"),
            )
        assert ask_for_url(connection), "one refusal does not close the connection"


def test_an_endpoint_where_nobody_listens_is_said(aws: None) -> None:
    with (
        connection_to(f"http://127.0.0.1:{find_free_port()}") as connection,
        pytest.raises(SqsUnavailable, match=r"Could not connect.*check the SQS endpoint"),
    ):
        ask_for_url(connection)


def test_calls_right_after_a_failure_do_not_try_again(aws: None) -> None:
    with stranger(b"") as (url, calls), connection_to(url) as connection:
        for _ in range(50):
            with pytest.raises(SqsUnavailable):
                ask_for_url(connection)
    assert 0 < len(calls) < 50


def test_an_endpoint_that_never_answers_is_given_up(aws: None) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        connection_to(
            f"http://127.0.0.1:{silent.getsockname()[1]}", answer_seconds=0.1
        ) as connection,
        pytest.raises(SqsUnavailable, match="Read timeout"),
    ):
        ask_for_url(connection)


@pytest.mark.parametrize(
    "answer",
    [
        http("200 OK", "<html>hi</html>"),
        http("200 OK", "{}"),
        http("502 Bad Gateway", "<html>hi</html>"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"nonsense\r\n\r\n",
    ],
    ids=["a page", "an empty object", "a gateway's error", "half of an answer", "noise"],
)
def test_an_endpoint_that_is_not_sqs_is_said(answer: bytes, aws: None) -> None:
    with (
        stranger(answer) as (url, _),
        connection_to(url) as connection,
        pytest.raises(SqsUnavailable),
    ):
        ask_for_url(connection)


def test_credentials_that_come_later_are_found(sqs: Sqs, monkeypatch: pytest.MonkeyPatch) -> None:
    key = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    for name in key:
        monkeypatch.delenv(name)
    with connection_to(sqs.endpoint_url, sqs.prefix) as connection:
        with pytest.raises(SqsUnavailable, match="credentials"):
            ask_for_url(connection)
        for name, value in key.items():
            monkeypatch.setenv(name, value)
        assert try_for_url(connection)


def test_a_missing_library_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(Invalid, match=r"wake_ups: .*pip install 'holdfast\[sqs\]'"):
        SqsConnection()


def test_a_region_that_nobody_named_is_asked_for(
    aws: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(Invalid, match=r"sqs_region: .*AWS_DEFAULT_REGION"):
        SqsConnection()
    SqsConnection(region="eu-central-1").close()


@pytest.mark.parametrize("endpoint_url", ["nonsense", "127.0.0.1:1", "http://"])
def test_an_endpoint_that_is_no_url_is_refused(endpoint_url: str, aws: None) -> None:
    with pytest.raises(Invalid, match=r"sqs_endpoint_url: .*https://"):
        SqsConnection(endpoint_url=endpoint_url)
