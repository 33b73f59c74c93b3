"""What both ends of the SQS transport share: queue names, hints, and the connection.

A wake-up is a message {"task_id": "4182.3"}: a hint that there is work, never the work itself.
The connection is boto3's and blocks, so it is called from threads. Whatever goes wrong with SQS
comes out as SqsUnavailable, after a bounded time.
"""

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast.errors import Invalid, Unavailable
from holdfast.model.work.ids import TaskId, parse_task_id

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

Answer = TypeVar("Answer")

PREFIX = "holdfast-"
NAME_LENGTH_MAX = 80
BATCH_MAX = 10
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 5.0
TRIES_MAX = 2
QUIET_SECONDS = 1.0
ATTRIBUTES: "dict[QueueAttributeNameType, str]" = {
    "VisibilityTimeout": "120",
    "MessageRetentionPeriod": str(24 * 60 * 60),
}

_REMEDY = "check the SQS endpoint, the credentials and what they allow"
_NAME = re.compile(r"[A-Za-z0-9_-]+")
# A letter after an underscore cannot be mistaken: every underscore of a queue's own is doubled.
_ESCAPES = str.maketrans({"_": "__", ".": "_d", ":": "_c", "/": "_s"})


class SqsUnavailable(Unavailable):
    """SQS, or what lies on the way to it, does not do what it was asked to."""


class Hint(msgspec.Struct):
    """The body of a message."""

    task_id: str


def queue_name(queue: str, prefix: str = PREFIX) -> str:
    """Name the SQS queue of a queue; different queues get different names."""
    if prefix and not _NAME.fullmatch(prefix):
        raise Invalid("sqs_prefix", f"{prefix!r} cannot be used; use letters, digits, - and _")
    escaped = queue.translate(_ESCAPES)
    if not _NAME.fullmatch(escaped):
        raise Invalid("queue", f"{queue!r} is not a queue name; use letters, digits and ._:/-")
    name = prefix + escaped
    if len(name) > NAME_LENGTH_MAX:
        raise Invalid(
            "queue",
            f"as an SQS queue it would be called {name!r}, which is {len(name)} characters and "
            f"over the limit of {NAME_LENGTH_MAX}; shorten the queue's name or sqs_prefix",
        )
    return name


def encode_hint(task_id: TaskId) -> str:
    """Write the body of a message."""
    return msgspec.json.encode(Hint(str(task_id))).decode()


def decode_hint(body: str) -> TaskId:
    """Read the body of a message; fields that are not known are passed over."""
    try:
        hint = msgspec.json.decode(body, type=Hint)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise Invalid("body", f'{error}; write it like {{"task_id": "4182.3"}}') from error
    return parse_task_id(hint.task_id)


class SqsConnection:
    """A client of SQS that finds each queue once, and creates those that do not exist.

    After a failure to reach SQS at all, calls fail at once for a moment: what has piled up is
    answered together, instead of waiting for one timeout after the other.
    """

    def __init__(
        self,
        *,
        prefix: str = PREFIX,
        endpoint_url: str | None = None,
        region: str | None = None,
        answer_seconds: float = ANSWER_SECONDS,
        connections_max: int = 10,
    ) -> None:
        self._prefix = prefix
        self._endpoint_url = endpoint_url
        self._region = region
        self._answer_seconds = answer_seconds
        self._connections_max = connections_max
        self._client = self._make_client()
        self._urls: dict[str, str] = {}
        self._quiet_until = 0.0
        self._problem = ""

    def call(self, queue: str, request: "Callable[[SQSClient, str], Answer]") -> Answer:
        """Make a request of a queue; it gets the client and the queue's URL. Blocks."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        if time.monotonic() < self._quiet_until:
            raise SqsUnavailable(self._problem)
        try:
            return self._call_anew(queue, request)
        except ClientError as error:
            # How often it was tried changes from call to call; the problem does not.
            said = re.sub(r" \(reached max retries: \d+\)", "", str(error))
            raise SqsUnavailable(f"{said}; {_REMEDY}") from error
        except BotoCoreError as error:
            if isinstance(error, NoCredentialsError):
                # A client looks for credentials only once, when it is made.
                self._client = self._make_client()
            self._problem = f"{error}; {_REMEDY}"
            self._quiet_until = time.monotonic() + QUIET_SECONDS
            raise SqsUnavailable(self._problem) from error

    def close(self) -> None:
        """Close the sockets; nothing may be called any more."""
        self._client.close()

    def _call_anew(self, queue: str, request: "Callable[[SQSClient, str], Answer]") -> Answer:
        """Make a request; if the queue has been deleted since it was found, create it again."""
        client = self._client
        try:
            return request(client, self._get_url(client, queue))
        except client.exceptions.QueueDoesNotExist:
            self._urls.pop(queue, None)
            return request(client, self._get_url(client, queue))

    def _get_url(self, client: "SQSClient", queue: str) -> str:
        if queue not in self._urls:
            name = queue_name(queue, self._prefix)
            try:
                answer = client.get_queue_url(QueueName=name)
            except client.exceptions.QueueDoesNotExist:
                answer = client.create_queue(QueueName=name, Attributes=ATTRIBUTES)
            if not answer.get("QueueUrl"):
                raise SqsUnavailable(f"SQS answered without a URL for queue {name}; {_REMEDY}")
            self._urls[queue] = answer["QueueUrl"]
        return self._urls[queue]

    def _make_client(self) -> "SQSClient":
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import NoRegionError
        except ImportError as error:
            remedy = "pip install 'holdfast[sqs]'"
            raise Invalid("wake_ups", f"sqs needs boto3, which is missing; {remedy}") from error
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=self._answer_seconds,
            retries={"mode": "standard", "total_max_attempts": TRIES_MAX},
            max_pool_connections=self._connections_max,
        )
        try:
            client: SQSClient = boto3.Session(region_name=self._region).client(
                "sqs", endpoint_url=self._endpoint_url, config=config
            )
        except NoRegionError as error:
            raise Invalid("sqs_region", "is not known; set AWS_DEFAULT_REGION") from error
        except ValueError as error:
            raise Invalid("sqs_endpoint_url", f"{error}; write it like https://host") from error
        return client
