"""A worker is known by what it shows without asking Postgres each time, and only it is."""

import pytest

from holdfast.errors import Invalid, NotAllowed
from holdfast.ledger.ledger import Ledger
from holdfast.operations.register import Registration, register
from holdfast.operations.tokens import WantedToken, create_token, revoke_token
from holdfast.services import worker_credentials as module
from holdfast.services.worker_credentials import WorkerCredentials
from holdfast.store.database import Database

SECRET = "s" * 32


def shown(worker_id: str = "w", secret: str = SECRET) -> dict[bytes, bytes]:
    return {b"holdfast-worker": f"{worker_id} {secret}".encode()}


async def join(ledger: Ledger, worker_id: str = "w", token_id: str | None = None) -> None:
    await register(ledger, Registration(worker_id, "n", "h", secret=SECRET, token_id=token_id))


@pytest.fixture
def credentials(database: Database) -> WorkerCredentials:
    """Those of a server that asks for tokens."""
    return WorkerCredentials(database, are_required=True)


async def test_a_worker_is_known_without_a_reading_until_the_next_one(
    credentials: WorkerCredentials, ledger: Ledger, database: Database
) -> None:
    await join(ledger)
    await credentials.check(shown(), "w")
    await database.close()  # it is not asked again
    await credentials.check(shown(), "w")
    assert await credentials.is_shown(shown(), "w")
    await database.open()
    await credentials.read()
    await database.close()
    await credentials.check(shown(), "w")
    await database.open()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        shown(secret="t" * 32),
        shown("v"),
        shown("v", "t" * 32),
        {b"holdfast-worker": b"w"},
        {b"holdfast-worker": b"w short"},
        {b"holdfast-worker": b"w \xff" + SECRET.encode()},
    ],
)
@pytest.mark.parametrize("are_required", [True, False])
async def test_what_is_not_the_workers_own_is_refused(
    ledger: Ledger, database: Database, headers: dict[bytes, bytes], are_required: bool
) -> None:
    credentials = WorkerCredentials(database, are_required=are_required)
    await join(ledger)
    await join(ledger, "v")
    with pytest.raises(NotAllowed) as refused:
        await credentials.check(headers, "w")
    assert refused.value.lacks == "the credential of worker w"
    assert SECRET not in str(refused.value)


async def test_a_credential_ends_with_the_token_that_the_worker_joined_with(
    credentials: WorkerCredentials, ledger: Ledger, database: Database
) -> None:
    made = await create_token(database, WantedToken("hosts", ("worker",)), actor="root")
    await join(ledger, "w", made.token_id)
    await join(ledger, "v")
    for name in ("w", "v"):
        await credentials.check(shown(name), name)
    await revoke_token(database, "hosts", actor="root")
    await credentials.check(shown(), "w")  # for a moment
    await credentials.read()
    with pytest.raises(NotAllowed, match="joined with a token that has ended"):
        await credentials.check(shown(), "w")
    await credentials.check(shown("v"), "v")


async def test_without_tokens_a_worker_without_a_secret_is_looked_up_once(
    ledger: Ledger, database: Database
) -> None:
    credentials = WorkerCredentials(database, are_required=False)
    await credentials.check({}, "w")
    await database.close()
    await credentials.check({}, "w")
    await database.open()
    await credentials.read()
    await join(ledger)  # through another server
    await credentials.check({}, "w")
    await credentials.read()
    with pytest.raises(NotAllowed, match="has registered with a secret"):
        await credentials.check({}, "w")
    with pytest.raises(Invalid):
        await credentials.check({}, "no id")


async def test_what_is_known_has_a_bound(
    ledger: Ledger, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KNOWN_MAX", 2)
    credentials = WorkerCredentials(database, are_required=False)
    await join(ledger)
    await credentials.check(shown(), "w")
    for number in range(3):
        await credentials.check({}, f"bare-{number}")
    await credentials.check(shown(), "w")
