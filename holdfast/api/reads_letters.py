"""The route that sums up dead letters: by reason and stage, and by what went wrong."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import get_args

from holdfast.api.endpoint import Call, Endpoint
from holdfast.errors import Invalid
from holdfast.model.ids import parse_job_id
from holdfast.model.outcomes import STAGES, ReasonCode
from holdfast.rules.fingerprint import fingerprint, first_line
from holdfast.rules.submission import check_text
from holdfast.store.reads import dead_letters
from holdfast.store.reads.dead_letters import LetterRow, Letters
from holdfast.wire.lists import DeadLetterSummary, LetterCell, LetterGroup, LetterSummaryQuery
from holdfast.wire.requests import DeadLetterFilter

TEXT_MAX = 256


async def sum_up_letters(call: Call[None, LetterSummaryQuery]) -> DeadLetterSummary:
    """Sum up the dead letters that wait for a decision; of very many, the newest."""
    wanted = letter_filter(call.query)
    async with call.runtime.reads.transaction() as tx:
        letters = await dead_letters.read_letters(tx, wanted)
    # Thousands of errors take a while to tell apart, and this loop has leases to renew.
    return await asyncio.to_thread(sum_up, letters)


def letter_filter(
    asked: LetterSummaryQuery | DeadLetterFilter, *, open_only: bool = True
) -> dead_letters.DeadLetterFilter:
    """Read a filter; unknown reasons and stages are refused, and texts that no name can be."""
    for field, known in (("reason_code", get_args(ReasonCode)), ("stage", STAGES)):
        value = getattr(asked, field)
        if value is not None and value not in known:
            raise Invalid(field, f"{value!r} is unknown; use one of {', '.join(known)}")
    for field in ("type", "queue"):
        check_text(field, getattr(asked, field) or "", TEXT_MAX)
    job_id = asked.job_id if isinstance(asked, DeadLetterFilter) else None
    return dead_letters.DeadLetterFilter(
        asked.reason_code,
        asked.stage,
        asked.type,
        asked.queue,
        None if job_id is None else parse_job_id(job_id),
        open_only=open_only,
    )


def sum_up(letters: Letters) -> DeadLetterSummary:
    """Sum up the counts, and gather those of the newest that are alike."""
    alike: dict[str, list[LetterRow]] = defaultdict(list)
    for letter in letters.newest:
        alike[fingerprint(letter.error_class, letter.error)].append(letter)
    groups = [_group(kind, found) for kind, found in alike.items()]
    return DeadLetterSummary(
        total=sum(count for *_, count in letters.cells),
        is_truncated=not letters.is_whole,
        cells=[LetterCell(*cell) for cell in letters.cells],
        groups=sorted(groups, key=lambda group: (group.count, group.newest_at), reverse=True),
    )


def _group(kind: str, letters: Sequence[LetterRow]) -> LetterGroup:
    newest = letters[0]
    return LetterGroup(
        fingerprint=kind,
        error_class=newest.error_class,
        example=None if newest.error is None else first_line(newest.error),
        count=len(letters),
        types=sorted({letter.type for letter in letters}),
        newest_at=newest.dead_lettered_at,
        task_ids=[str(letter.id) for letter in letters],
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/api/dead-letters:summary",
        sum_up_letters,
        DeadLetterSummary,
        query=LetterSummaryQuery,
    ),
)
