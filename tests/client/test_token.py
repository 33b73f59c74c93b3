"""A client's token: where it comes from, and that it is never shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.client.client import Client
from holdfast.client.token import Token, find_token
from holdfast.client.transport import Transport
from holdfast.errors import Invalid, Unauthenticated
from holdfast.wire.status import Changed
from tests.client.peer import Peer, Say, listening

TOKENS = [f"hf_{digit * 12}_{digit * 64}" for digit in "123"]


def test_the_one_given_comes_first_then_the_variable_then_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_token() is None
    file = tmp_path / "token"
    file.write_text(f"{TOKENS[0]}\n")
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(file))
    assert find_token() == TOKENS[0]
    monkeypatch.setenv("HOLDFAST_TOKEN", TOKENS[1])
    assert find_token() == TOKENS[1]
    assert find_token(TOKENS[2]) == TOKENS[2]


def test_a_jwt_is_taken_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jwt = f"eyJhbGciOiJSUzI1NiJ9.{'x' * 8000}.{'y' * 342}"
    assert find_token(jwt) == jwt
    file = tmp_path / "token"
    file.write_text(f"{jwt}\n")
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(file))
    assert find_token() == jwt


def test_what_is_no_token_is_refused_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Invalid, match="token: is not a token") as refused:
        find_token("hunter2")
    assert "hunter2" not in str(refused.value)
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(Invalid, match=r"HOLDFAST_TOKEN_FILE: cannot be read: .*nowhere"):
        find_token()


def test_a_login_in_the_address_and_a_token_cannot_both_be_sent() -> None:
    with pytest.raises(Invalid, match="has a login, and there is a token") as refused:
        Client("http://me:pw@127.0.0.1:1", token=TOKENS[0])
    assert "pw" not in str(refused.value)


def test_a_client_does_not_show_it() -> None:
    client = Client("http://127.0.0.1:1", token=TOKENS[0])
    assert TOKENS[0] not in repr(client) + repr(client._transport)


@pytest.fixture
def stranger() -> Iterator[Peer]:
    """Somebody who answers as he is told."""
    with listening() as peer:
        yield peer


REFUSED = Say(401, b'{"error": {"code": "unauthenticated", "message": "unknown"}}')


async def test_a_file_is_read_again_once_its_token_is_refused_and_only_then(
    stranger: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKENS[0])
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(file))
    body = tmp_path / "body"
    body.write_bytes(b"x" * 5000)
    stranger.script = [Say(), REFUSED, Say(), Say(), REFUSED]

    async def call() -> Changed:
        return await transport.call("PUT", "/x", Changed, body=body)

    async with Transport(stranger.url) as transport:
        await call()
        file.write_text(TOKENS[1])
        assert (await call()).changed
        file.write_text(TOKENS[2])
        await call()  # nobody has refused the second one
        file.write_text(TOKENS[1])
        with pytest.raises(Unauthenticated):
            await call()  # it is the same: there is nothing else to show
        file.unlink()
        with pytest.raises(Unauthenticated):
            await call()
        file.write_text(TOKENS[2])
        with pytest.raises(Unauthenticated):
            await call()  # once, and not for ever
    shown = [heard.headers["Authorization"].removeprefix("Bearer ") for heard in stranger.heard]
    expected = [0, 0, 1, 1, 1, 1, 1, 2]
    assert shown == [TOKENS[number] for number in expected]
    assert {heard.body for heard in stranger.heard} == {b"x" * 5000}


async def test_a_token_that_was_given_has_no_other(stranger: Peer) -> None:
    stranger.script = [REFUSED]
    async with Transport(stranger.url, speaker=Token(TOKENS[0])) as transport:
        with pytest.raises(Unauthenticated):
            await transport.call("GET", "/x", Changed)
    assert len(stranger.heard) == 1
