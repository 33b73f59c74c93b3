"""`holdfast cancel`: ask jobs and tasks to end."""

from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.app import EXIT_NO
from holdfast.cli.connect import open_client
from holdfast.cli.ids import Ids, check_ids
from holdfast.cli.output.write import remark, write_line
from holdfast.cli.settings import Server
from holdfast.errors import Invalid, NotFound
from holdfast.model.work.outcomes import CancelMode


def cancel(
    *ids: Ids,
    hard: Annotated[
        bool, Parameter(negative="", help="At once, without the grace that a soft cancel gives.")
    ] = False,
    reason: Annotated[str, Parameter(help="Why; it is kept with the job.")] = "cancelled",
    key: Annotated[
        str | None, Parameter(help="An idempotency key, for one id: a repeat gets the same answer.")
    ] = None,
    server: Server = None,
) -> int:
    """Cancel jobs and tasks. Exit code 1: one of them does not exist."""
    wanted = check_ids(ids)
    if key is not None and len(wanted) > 1:
        raise Invalid("--key", "belongs to one cancel; give a single id with it")
    mode: CancelMode = "hard" if hard else "soft"
    is_missing = False
    with open_client(server) as client:
        for an_id in wanted:
            try:
                ask = client.tasks.cancel if "." in an_id else client.jobs.cancel
                changed = ask(an_id, mode, reason, idempotency_key=key)
            except NotFound as error:
                is_missing = True
                remark(f"holdfast: {error}")
                continue
            write_line(an_id, "asked to stop" if changed else "had ended or been asked before")
    return EXIT_NO if is_missing else 0
