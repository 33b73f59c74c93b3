"""`holdfast shares`: who gets how much of a queue, and of the workers of placed work."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from holdfast.cli.app import EXIT_NO
from holdfast.cli.connect import open_client
from holdfast.cli.output.text import span
from holdfast.cli.output.write import Column, remark, write_json, write_line, write_table
from holdfast.cli.settings import Json, Server
from holdfast.errors import Invalid

if TYPE_CHECKING:
    from holdfast.wire.shares import ShareRuleStatus

app = App(name="shares", help="List how queues are shared; set and unset a rule.")
OptionalQueue = Annotated[str | None, Parameter(name="QUEUE", help="A queue.")]
Placed = Annotated[bool, Parameter(negative="", help="The workers of placed work; no queue.")]
_COLUMNS = (
    Column("queue"),
    Column("share", flexible=True),
    Column("weight", right=True),
    Column("running", right=True),
    Column("waiting", right=True),
    Column("pass", right=True),
)


@app.default
def list_shares(
    queue: OptionalQueue = None, /, *, server: Server = None, as_json: Json = False
) -> int:
    """List rules with the first of their shares: what runs and waits, and who is next."""
    with open_client(server) as client:
        found = client.shares.list(queue)
    if as_json:
        write_json(found)
        return 0
    if not found.rules:
        remark("no rules of shares: each queue is served by priority, and then by time")
        return 0
    write_table(
        _COLUMNS,
        [
            (
                _name(rule),
                share.value or "(none)",
                f"{share.weight:g}",
                str(share.running),
                str(share.waiting),
                "" if share.pass_value is None else f"{share.pass_value:.1f}",
            )
            for rule in found.rules
            for share in rule.shares
        ],
    )
    for rule in found.rules:
        remark(_say_rule(rule))
    return 0


app.command(list_shares, name="list")


@app.command(name="set")
def set_rule(
    queue: OptionalQueue = None,
    /,
    *,
    placed: Placed = False,
    by: Annotated[
        Literal["owner", "key", "nothing"],
        Parameter(help="Share by owner, by concurrency_key, or by nothing: tasks only age."),
    ] = "owner",
    weight: Annotated[
        list[str] | None, Parameter(help="VALUE=NUMBER, more than once; others weigh 1.")
    ] = None,
    age_step: Annotated[
        float | None, Parameter(help="Seconds in line for which a task gains a step of priority.")
    ] = None,
    age_max: Annotated[int, Parameter(help="Steps of priority that it gains at most.")] = 0,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Share a queue, or placed work, from now on; what was set before is forgotten."""
    from holdfast.wire.shares import ShareRuleRequest

    name = _choose(queue, placed=placed)
    rule = ShareRuleRequest(by, _read_weights(weight or []), age_step, age_max)
    with open_client(server) as client:
        stored = client.shares.set(name, rule)
    if as_json:
        write_json(stored)
        return 0
    write_line(_say_rule(stored))
    return 0


@app.command
def unset(queue: OptionalQueue = None, /, *, placed: Placed = False, server: Server = None) -> int:
    """Serve a queue by priority and time again. Exit code 1: it has no rule."""
    name = _choose(queue, placed=placed)
    words = "placed work" if name is None else f"queue {name}"
    with open_client(server) as client:
        if not client.shares.unset(name):
            remark(f"{words} has no rule of shares")
            return EXIT_NO
    write_line(f"{words} is not shared by a rule any more")
    return 0


def _choose(queue: str | None, *, placed: bool) -> str | None:
    if (queue is None) != placed:
        raise Invalid("QUEUE", "is one of two; give either a queue or --placed")
    return queue


def _read_weights(given: list[str]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for text in given:
        value, equals, number = text.rpartition("=")
        try:
            weights[value] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise Invalid("weight", f"{text!r} is not VALUE=NUMBER, such as ann=3")
    return weights


def _name(rule: "ShareRuleStatus") -> str:
    return "(placed)" if rule.queue is None else rule.queue


def _say_rule(rule: "ShareRuleStatus") -> str:
    words = f"{_name(rule)} is shared by {rule.by}"
    if rule.age_step_seconds is not None:
        step = span(rule.age_step_seconds)
        words += f"; tasks gain a step of priority each {step}, {rule.age_max} at most"
    if rule.state == "sorting":
        words += "; tasks from before are being sorted"
    if rule.state == "ending":
        words += "; it is being taken back"
    return words
