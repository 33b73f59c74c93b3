"""The route that lists what people have done."""

from holdfast.api.convert import to_ms
from holdfast.api.page_tokens import ActionToken, check_page_size, read_token, write_token
from holdfast.api.route import Call, Route
from holdfast.api.routes.output.events import parse_time
from holdfast.errors import Invalid
from holdfast.model.access.actions import ACTION_KINDS, SUBJECT_KINDS
from holdfast.model.access.roles import Role
from holdfast.rules.submitting.submission import check_text
from holdfast.store.reads.actions import ACTION_ID_MAX, ActionFilter, ActionRow, list_actions
from holdfast.wire.actions import LIST_PATH, Action, ActionListQuery, ActionPage
from holdfast.wire.raw import raw

TEXT_MAX = 256


async def list_what_people_did(call: Call[None, ActionListQuery]) -> ActionPage:
    """List who cancelled, replayed, paused, cut over or changed a policy, the newest first."""
    asked = call.query
    wanted, page_size = _filter(asked), check_page_size(asked.page_size)
    token = read_token(asked.page_token, ActionToken)
    before = ACTION_ID_MAX if token is None else token.action_id
    async with call.reads.transaction() as tx:
        found = await list_actions(tx, wanted, before=before, count_max=page_size + 1)
    page = found[:page_size]
    following = ActionToken(page[-1].action_id) if len(found) > page_size else None
    return ActionPage([_action(row) for row in page], write_token(following))


def _filter(asked: ActionListQuery) -> ActionFilter:
    check_text("actor", asked.actor or "", TEXT_MAX)
    if asked.action is not None and asked.action not in ACTION_KINDS:
        known = ", ".join(ACTION_KINDS)
        raise Invalid("action", f"{asked.action[:50]!r} is none; there are {known}")
    kind, _, name = (asked.subject or "").partition(":")
    check_text("subject", name, TEXT_MAX)
    if asked.subject is not None and kind not in SUBJECT_KINDS:
        kinds = ", ".join(SUBJECT_KINDS)
        problem = f"{asked.subject[:50]!r} is of no kind; write it like job:42, with one of {kinds}"
        raise Invalid("subject", problem)
    return ActionFilter(
        actor=asked.actor,
        action=asked.action,
        subject_kind=kind or None,
        subject=name or None,
        since=parse_time(asked.since, "since"),
    )


def _action(row: ActionRow) -> Action:
    return Action(
        id=row.action_id,
        at_ms=to_ms(row.at),
        actor=row.actor,
        action=row.action,
        subject_kind=row.subject_kind,
        subject=row.subject,
        reason=row.reason,
        facts=raw(row.facts),
        token_id=row.token_id,
    )


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        LIST_PATH,
        list_what_people_did,
        ActionPage,
        Role.READ,
        query=ActionListQuery,
        at_replica=True,
    ),
)
