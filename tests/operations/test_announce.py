"""Announcing functions: the latest word counts for whatever is submitted after it."""

from typing import Any

import pytest

from holdfast.errors import Invalid, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.workers.functions import AnnouncedFunction, FunctionOptions, FunctionParameter
from holdfast.operations import announce as announcing
from holdfast.operations.announce import announce, find_announced, list_announced
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_spec
from tests.audits import assert_audit_is_silent
from tests.world import World

A_JOB = Submission(parse_spec({"entrypoint": {"function": "app:work"}}))


def work(path: str = "app:work", **options: Any) -> AnnouncedFunction:
    return AnnouncedFunction(path=path, options=FunctionOptions(**options))


async def test_the_latest_word_counts_for_what_is_submitted_after_it(
    ledger: Ledger, world: World
) -> None:
    queues = []
    for queue in ("first", "second"):
        assert (await announce(ledger, "w", [work(queue=queue)])).changed == ["app:work"]
        assert (await announce(ledger, "w2", [work(queue=queue)])).changed == []
        queues.append((await world.job((await submit_one(ledger, A_JOB)).job_id))["queue"])
        [submitted] = await submit_batch(ledger, [A_JOB])
        queues.append((await world.job(submitted.job_id))["queue"])
    assert queues == ["first", "first", "second", "second"]
    await assert_audit_is_silent(ledger.database)


async def test_other_servers_notice(ledger: Ledger, world: World) -> None:
    known_elsewhere = ledger.policies
    await announce(ledger, "w", [work(queue="q")])
    ledger.policies = known_elsewhere
    assert (await world.job((await submit_one(ledger, A_JOB)).job_id))["queue"] == "q"


async def test_a_function_whose_jobs_would_be_refused_keeps_no_other_out(ledger: Ledger) -> None:
    odd = FunctionParameter(name="n", schema={"enum": ["\0"]})
    said = [work("app:bad", lease=1.0), work("no path"), work(queue="q")]
    said.append(AnnouncedFunction(path="app:odd", parameters=[odd]))
    made = await announce(ledger, "w", said)
    assert "parameters: contains a NUL character" in made.refused["app:odd"]
    assert made.changed == ["app:work"]
    assert "lease: " in made.refused["app:bad"]
    assert "entrypoint.function: is not an import path" in made.refused["no path"]
    assert [each.path for each in await list_announced(ledger, after="", count_max=9)] == [
        "app:work"
    ]
    assert await find_announced(ledger, "app:bad") is None


async def test_how_much_can_be_announced_is_bounded(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcing, "FUNCTIONS_MAX", 2)
    for name in ("a", "b", "c"):
        await announce(ledger, "w", [work(f"app:{name}")])
    assert len(await list_announced(ledger, after="", count_max=9)) == 2
    monkeypatch.setattr(announcing, "ANNOUNCED_MAX", 1)
    with pytest.raises(TooLarge, match="functions: 2 functions is over the limit"):
        await announce(ledger, "w", [work("app:a"), work("app:b")])
    monkeypatch.setattr(announcing, "ANNOUNCED_BYTES_MAX", 10)
    with pytest.raises(TooLarge, match="over the limit of 10 bytes"):
        await announce(ledger, "w", [work()])
    with pytest.raises(Invalid):
        await announce(ledger, "", [])
