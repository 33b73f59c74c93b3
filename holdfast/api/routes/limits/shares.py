"""The routes of shares: who gets how much of a queue, and of the workers of placed work."""

from holdfast.api.convert import to_ms
from holdfast.api.route import Call, Route
from holdfast.errors import Invalid
from holdfast.model.access.roles import Role
from holdfast.model.limits.shares import PLACED, ShareRule, StoredShareRule
from holdfast.operations.sharing.rules import set_share_rule, unset_share_rule
from holdfast.rules.limits.shares import check_share_by, check_share_queue
from holdfast.services.waking.doorbell import Bell
from holdfast.store.reads.limits.shares import ShareRow, list_shared_queues
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.requests import Nothing
from holdfast.wire.shares import (
    LIST_PATH,
    PLACED_PATH,
    ShareListQuery,
    ShareRuleList,
    ShareRuleRequest,
    ShareRuleStatus,
    ShareStatus,
)
from holdfast.wire.status import Changed


async def list_shares(call: Call[None, ShareListQuery]) -> ShareRuleList:
    """List the rules of shares, each with the first of its shares: what waits, and what runs."""
    queue = call.query.queue
    if queue is not None:
        if not queue:
            raise Invalid("queue", "is empty; name one, or leave it out for all rules")
        check_share_queue(queue)
    async with call.runtime.reads.transaction() as tx:
        found = await list_shared_queues(tx, queue)
    return ShareRuleList([_status(each.rule, each.shares) for each in found])


async def put_rule(call: Call[ShareRuleRequest, Nothing]) -> ShareRuleStatus:
    """Share a queue by owner or by key, with weights, from now on."""
    return await _put(call, call.path["queue"])


async def put_placed_rule(call: Call[ShareRuleRequest, Nothing]) -> ShareRuleStatus:
    """Share the workers of placed work by owner or by key, with weights, from now on."""
    return await _put(call, PLACED)


async def _put(call: Call[ShareRuleRequest, Nothing], queue: str) -> ShareRuleStatus:
    asked = call.body
    by = check_share_by(asked.by)
    rule = ShareRule(by, asked.weights, asked.age_step_seconds, asked.age_max)
    stored = await set_share_rule(call.runtime.ledger, queue, rule, actor=call.actor)
    return _status(stored, [])


async def remove_rule(call: Call[None, Nothing]) -> Changed:
    """Take the rule of a queue back; doing it twice is harmless."""
    queue = call.path["queue"]
    changed = await unset_share_rule(call.runtime.ledger, queue, actor=call.actor)
    call.runtime.doorbells.ring(Bell("queue", queue))
    return Changed(changed)


async def remove_placed_rule(call: Call[None, Nothing]) -> Changed:
    """Take the rule of placed work back; doing it twice is harmless."""
    return Changed(await unset_share_rule(call.runtime.ledger, PLACED, actor=call.actor))


def _status(stored: StoredShareRule, shares: list[ShareRow]) -> ShareRuleStatus:
    rule = stored.rule
    return ShareRuleStatus(
        queue=None if stored.queue == PLACED else stored.queue,
        by=rule.share_by,
        weights=dict(rule.weights),
        age_step_seconds=rule.age_step_seconds,
        age_max=rule.age_max,
        state="ending" if stored.is_ending else "shared" if stored.is_sorted else "sorting",
        updated_at_ms=to_ms(stored.updated_at),
        updated_by=stored.updated_by,
        shares=[
            ShareStatus(
                value=share.value,
                weight=share.weight,
                running=share.running,
                waiting=share.waiting,
                pass_value=share.pass_value,
            )
            for share in shares
        ],
    )


_QUEUE = f"{LIST_PATH}/queues/{{queue:path}}"
_CONFLICT = {409: ErrorAnswer}
ROUTES = (
    Route("GET", LIST_PATH, list_shares, ShareRuleList, Role.READ, query=ShareListQuery),
    Route(
        "PUT",
        PLACED_PATH,
        put_placed_rule,
        ShareRuleStatus,
        Role.ADMIN,
        body=ShareRuleRequest,
        also=_CONFLICT,
    ),
    Route("DELETE", PLACED_PATH, remove_placed_rule, Changed, Role.ADMIN),
    Route(
        "PUT", _QUEUE, put_rule, ShareRuleStatus, Role.ADMIN, body=ShareRuleRequest, also=_CONFLICT
    ),
    Route("DELETE", _QUEUE, remove_rule, Changed, Role.ADMIN),
)
