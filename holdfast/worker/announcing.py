"""Tell the server which functions this process has, and with which options their jobs run."""

import logging
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.client.transport import Transport
from holdfast.errors import Refused, Unavailable
from holdfast.model.functions import AnnouncedFunction
from holdfast.model.worker_credentials import WorkerCredential
from holdfast.wire.functions import ANNOUNCE_PATH, AnnounceAnswer, AnnounceRequest

log = logging.getLogger("holdfast.worker")
# A worker waits for its server for as long as it takes.
PATIENCE_SECONDS = 10 * 365 * 86_400.0
# Both are less than a server takes.
FUNCTIONS_PER_REQUEST_MAX = 500
BYTES_PER_REQUEST_MAX = 2 << 20


async def announce(
    server: str, worker: WorkerCredential, functions: Sequence[AnnouncedFunction]
) -> None:
    """Announce functions, as soon as the server can be reached; a refusal is logged."""
    for part in _split(functions):
        body = AnnounceRequest(worker.worker_id, part)
        try:
            async with Transport(server) as transport:
                transport.show(worker)
                answer = await transport.insist(
                    "POST", ANNOUNCE_PATH, AnnounceAnswer, body=body, seconds_max=PATIENCE_SECONDS
                )
        except (Refused, Unavailable) as error:
            log.warning(
                "%s functions could not be announced, their options are unknown: %s",
                len(part),
                error,
            )
        else:
            log.info("announced %s functions, %s of them new", len(part), len(answer.changed))
            for path, problem in answer.refused.items():
                log.warning("%s was not taken, its options are unknown: %s", path, problem)


def _split(functions: Sequence[AnnouncedFunction]) -> Iterator[list[AnnouncedFunction]]:
    """Cut functions into parts that a server takes at once."""
    part: list[AnnouncedFunction] = []
    size = 0
    for function in functions:
        length = len(msgspec.json.encode(function))
        if part and (
            len(part) == FUNCTIONS_PER_REQUEST_MAX or size + length > BYTES_PER_REQUEST_MAX
        ):
            yield part
            part, size = [], 0
        part.append(function)
        size += length
    if part:
        yield part
