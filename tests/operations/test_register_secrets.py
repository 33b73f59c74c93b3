"""By a secret a worker is known, and by it alone is it replaced."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.errors import Invalid, NotAllowed
from holdfast.ledger.ledger import Ledger
from holdfast.model.workers.resources import Capacity
from holdfast.operations.register import Placing, Registration, register
from tests.world import World

OLD = Registration("w1", "worker", "host")
NEW = Registration("w2", "worker", "host", ("q",), replaces="w1")


def placed(**fields: Any) -> Registration:
    """Describe a worker that is to be called."""
    placing = Placing("http://10.0.0.7:7000", Capacity(cpu=8.0), {})
    return Registration("w1", "worker", "host", placing=placing, **{"secret": "s" * 16} | fields)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("secret", placed(secret=None)),
        ("secret", placed(secret="short")),
        ("secret", Registration("w1", "worker", "host", must_prove=True)),
        ("replaces_secret", placed(replaces_secret="s" * 16)),
        ("replaces_secret", placed(replaces="w0", replaces_secret="short")),
    ],
)
async def test_a_secret_has_to_be_one(
    ledger: Ledger, world: World, field: str, wrong: Registration
) -> None:
    with pytest.raises(Invalid) as refused:
        await register(ledger, wrong)
    assert refused.value.field == field
    assert await world.count("workers") == 0


@pytest.mark.parametrize("is_old_known", [True, False])
async def test_a_worker_is_replaced_by_who_has_its_secret(
    ledger: Ledger, world: World, is_old_known: bool
) -> None:
    """One that has none is replaced on its word, but not where workers have to prove themselves."""
    await register(ledger, replace(OLD, secret="s" * 16 if is_old_known else None))
    before = await world.dump()
    secrets = [None, "t" * 16] if is_old_known else ["s" * 16]
    for secret in secrets:
        heir = replace(NEW, secret="t" * 16, replaces_secret=secret, must_prove=not is_old_known)
        with pytest.raises(NotAllowed) as refused:
            await register(ledger, heir)
        assert refused.value.lacks == "the secret of worker w1"
    assert await world.dump() == before
    await register(ledger, replace(NEW, replaces_secret="s" * 16 if is_old_known else None))
