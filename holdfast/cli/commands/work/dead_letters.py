"""`holdfast dead-letters`: what will not be tried again by itself, and what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.files import edit_text
from holdfast.cli.output.text import age, first_line, in_ms, moment, span
from holdfast.cli.output.write import (
    Column,
    State,
    remark,
    write_fields,
    write_json,
    write_line,
    write_table,
    write_title,
)
from holdfast.cli.settings import Json, RebindOutputs, RepeatKey, Server, check_limit
from holdfast.errors import Invalid
from holdfast.model.work.ids import parse_task_id

if TYPE_CHECKING:
    from holdfast.wire.dead_letters import DeadLetter, ReplayAnswer, Replayed
    from holdfast.wire.requests import DeadLetterFilter

LETTERS_SHOWN = 50
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600}
app = App(name="dead-letters", help="List dead letters; show, replay and discard them.")
_COLUMNS = (
    Column("task"),
    Column("type", flexible=True),
    Column("reason"),
    Column("stage"),
    Column("attempts", right=True),
    Column("since"),
    Column("last error", flexible=True),
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which dead letters are meant."""

    reason: Annotated[str | None, Parameter(help="With this reason, such as timeout.")] = None
    stage: Annotated[str | None, Parameter(help="That failed in this stage.")] = None
    type: Annotated[str | None, Parameter(help="Of this job type.")] = None
    queue: Annotated[str | None, Parameter(help="Of this queue.")] = None
    job: Annotated[str | None, Parameter(help="Of this job.")] = None

    def as_filter(self) -> "DeadLetterFilter":
        """Write it as the server reads it."""
        from holdfast.wire.requests import DeadLetterFilter

        return DeadLetterFilter(self.reason, self.stage, self.type, self.queue, self.job)


_EVERYTHING = Filters()


@app.default
def list_dead_letters(
    *,
    filters: Filters = _EVERYTHING,
    settled: Annotated[
        bool, Parameter(negative="", help="Also those that were replayed or discarded.")
    ] = False,
    newest: Annotated[
        bool, Parameter(negative="", help="The newest first, not the oldest job first.")
    ] = False,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")] = LETTERS_SHOWN,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """List dead letters that wait for a decision."""
    import msgspec

    check_limit(limit)
    wanted = msgspec.structs.asdict(filters.as_filter())
    with open_client(server) as client:
        page = client.dead_letters.list(**wanted, settled=settled, newest=newest, count_max=limit)
    if as_json:
        write_json(page)
        return 0
    if not page.dead_letters:
        remark("no dead letters" if filters == _EVERYTHING else "no dead letters match")
        return 0
    write_table(_COLUMNS, [_row(letter) for letter in page.dead_letters])
    if page.next_page_token is not None:
        remark(f"there are more; --limit {limit * 2} shows more of them")
    return 0


@app.command
def show(
    task_id: Annotated[str, Parameter(name="ID", help="A task's id, such as 4182.3.")],
    /,
    *,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Show one dead letter with its input."""
    parse_task_id(task_id, "id")
    with open_client(server) as client:
        letter = client.dead_letters.get(task_id)
    if as_json:
        write_json(letter)
        return 0
    write_title(f"Dead letter {letter.task_id}", State("dead_lettered"))
    write_fields(_fields(letter))
    return 0


@app.command
def replay(
    *task_ids: Annotated[str, Parameter(name="ID", help="Tasks' ids, such as 4182.3.")],
    all: Annotated[
        bool, Parameter(negative="", help="All that the filters match, instead of ids.")
    ] = False,
    filters: Filters = _EVERYTHING,
    dry_run: Annotated[
        bool, Parameter(negative="", help="Only say what would be replayed.")
    ] = False,
    canary: Annotated[
        int | None, Parameter(help="So many of them first; the rest if these succeed.")
    ] = None,
    rate: Annotated[
        str | None, Parameter(help="So many start in a while: 10/s, 90/min, 500/h.")
    ] = None,
    input: Annotated[
        str | None, Parameter(help="Another input, JSON, for the one dead letter that is named.")
    ] = None,
    edit: Annotated[
        bool, Parameter(negative="", help="Edit its input first, in $VISUAL or $EDITOR.")
    ] = False,
    resume: Annotated[
        bool, Parameter(negative="", help="Let go on what was killed because their jobs failed.")
    ] = False,
    key: RepeatKey = None,
    rebind_outputs: RebindOutputs = False,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Submit dead letters again, as new jobs that link to the old ones."""
    if all == bool(task_ids):
        raise Invalid("ID", "give tasks' ids, or --all with filters, one of the two")
    if task_ids and filters != _EVERYTHING:
        raise Invalid("ID", "filters go with --all; ids are exact")
    which = filters.as_filter() if all else _check(task_ids)
    if (edit or input is not None) and len(task_ids) != 1:
        raise Invalid("--edit" if edit else "--input", "goes with the id of one dead letter")
    if edit and input is not None:
        raise Invalid("--edit", "goes without --input; give one of the two")
    per_second = None if rate is None else _read_rate(rate)
    with open_client(server) as client:
        if edit:
            before = _write_readable(client.dead_letters.get(task_ids[0]))
            input = edit_text("--edit", before, "input.json")
        answer = client.dead_letters.replay(
            which,
            dry_run=dry_run,
            idempotency_key=key,
            rebind_outputs=rebind_outputs,
            canary=canary,
            rate=per_second,
            resume=resume,
            **_read_input("--edit" if edit else "--input", input),
        )
    if as_json:
        write_json(answer)
        return 0
    _write_replays(answer, canary)
    _write_waiting(answer, resume=resume)
    return 0


def _write_replays(answer: "ReplayAnswer", canary: int | None) -> None:
    for made in answer.replays:
        target = "would be replayed" if made.job_id is None else f"→ job {made.job_id}"
        write_line(_name_tasks(made.task_ids), ", ".join([target, *_tell_manner(made, canary)]))
    if not answer.replays:
        remark("no dead letters match")


def _write_waiting(answer: "ReplayAnswer", *, resume: bool) -> None:
    """Say what becomes of jobs that were killed because of these dead letters."""
    for again in answer.resumed:
        write_line(f"{again.replay_of} waited for it", f"→ job {again.job_id}")
    for job_id, why in answer.not_resumed.items():
        remark(f"{why}; then: holdfast resume {job_id}")
    count = answer.killed_in_vain
    if count and not resume:
        jobs = "1 job was" if count == 1 else f"{count} jobs were"
        remark(f"{jobs} killed because of these; --resume lets them go on with the replay")
        for job_id in [] if answer.dry_run else answer.waited_for:
            remark(f"by now: holdfast resume {job_id}")


@app.command
def discard(
    *task_ids: Annotated[str, Parameter(name="ID", help="Tasks' ids, such as 4182.3.")],
    server: Server = None,
) -> int:
    """Settle dead letters that need nothing more; exact ids only."""
    if not task_ids:
        raise Invalid("ID", "give tasks' ids, such as 4182.3")
    with open_client(server) as client:
        client.dead_letters.discard(_check(task_ids))
    for task_id in task_ids:
        write_line(f"{task_id} is discarded")
    return 0


def _check(task_ids: Sequence[str]) -> Sequence[str]:
    for task_id in task_ids:
        parse_task_id(task_id, "ID")
    return task_ids


def _read_rate(text: str) -> float:
    """Read how many may start in a while; gives how many that are in a second."""
    count, _, unit = text.partition("/")
    try:
        return float(count) / _UNITS[unit]
    except (KeyError, ValueError) as error:
        raise Invalid("--rate", f"{text!r} is not a rate; write 10/s, 90/min or 500/h") from error


def _read_input(flag: str, text: str | None) -> dict[str, Any]:
    """Read another input for a dead letter, as the client takes it; none if none is given."""
    import json

    if text is None:
        return {}
    try:
        return {"input": json.loads(text)}
    except ValueError as error:
        raise Invalid(flag, f"is not JSON: {error}") from error


def _write_input(letter: "DeadLetter") -> str:
    import msgspec

    return msgspec.json.format(bytes(letter.input), indent=2).decode()


def _find_codec(letter: "DeadLetter") -> str | None:
    import msgspec

    from holdfast.model.submitting.payloads import find_codec_name

    return find_codec_name(msgspec.json.decode(letter.input))


def _write_readable(letter: "DeadLetter") -> str:
    """Write an input to be edited; refuses what nobody can read here."""
    name = _find_codec(letter)
    if name is not None:
        problem = f"cannot be edited here: the input is encrypted by codec {name}"
        remedy = "use client.dead_letters.replay(..., input=...) of a client that has it"
        raise Invalid("--edit", f"{problem}; {remedy}")
    return _write_input(letter)


def _tell_manner(made: "Replayed", canary: int | None) -> Sequence[str]:
    """Tell what is special about the replay of some dead letters."""
    words = []
    if made.is_canary:
        words.append("first, as a canary")
    elif canary is not None:
        words.append("when the canary has succeeded")
    if made.start_delay:
        words.append(f"after {span(made.start_delay)}")
    if made.start_rate is not None:
        words.append(f"over {span((len(made.task_ids) - 1) / made.start_rate)}")
    if made.input_edited:
        words.append("with the edited input")
    return words


def _name_tasks(task_ids: Sequence[str]) -> str:
    first, last = task_ids[0], task_ids[-1]
    return first if len(task_ids) == 1 else f"{first} … {last} ({len(task_ids)} tasks)"


def _row(letter: "DeadLetter") -> Sequence[str]:
    return (
        letter.task_id,
        letter.type,
        letter.reason_code,
        letter.stage or "",
        str(letter.attempts),
        age(in_ms(letter.dead_lettered_at)),
        first_line(letter.last_error),
    )


def _fields(letter: "DeadLetter") -> dict[str, str]:
    codec = _find_codec(letter)
    given = f"encrypted by codec {codec}" if codec is not None else _write_input(letter)
    edited = "with an edited input, " if letter.input_edited else ""
    replayed = f"as job {letter.replayed_as}, {edited}" if letter.replayed_as else ""
    discarded = f" by {letter.discarded_by}" if letter.discarded_by else ""
    return {
        "reason": letter.reason_code,
        "stage": letter.stage or "",
        "type": letter.type,
        "queue": letter.queue or "",
        "since": moment(in_ms(letter.dead_lettered_at)),
        "attempts": str(letter.attempts),
        "last worker": letter.last_owner or "",
        "error class": letter.error_class or "",
        "last error": letter.last_error or "",
        "input": "" if given == "null" else given,
        "replayed": replayed + moment(in_ms(letter.replayed_at)) if letter.replayed_at else "",
        "discarded": moment(in_ms(letter.discarded_at)) + discarded if letter.discarded_at else "",
        "correlation": letter.correlation_id,
    }
