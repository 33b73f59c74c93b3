"""A real identity provider on loopback, as the server sees it."""

import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import pytest

from holdfast.errors import Invalid, NotAllowed, Unauthenticated, Unavailable
from holdfast.model.access.roles import Role
from holdfast.services.identity import keys as keys_module
from holdfast.services.identity.claims import OidcSettings
from holdfast.services.identity.provider import IdentityProvider, Returned, is_safe
from tests.identity_provider import (
    AUDIENCE,
    CLIENT_ID,
    TestProvider,
    free_port,
    provider_on_loopback,
)

HOME = "http://127.0.0.1:7878/login"


@pytest.fixture
def issuer() -> Iterator[TestProvider]:
    """An identity provider."""
    with provider_on_loopback() as provider:
        yield provider


def settings(issuer: str, **fields: Any) -> OidcSettings:
    fields = {"roles": {"people": Role.SUBMIT}, "client_id": CLIENT_ID} | fields
    return OidcSettings(issuer=issuer, audience=AUDIENCE, **fields)


@pytest.fixture
async def provider(issuer: TestProvider) -> AsyncIterator[IdentityProvider]:
    """The provider, as a server calls it."""
    provider = IdentityProvider(settings(issuer.issuer))
    yield provider
    await provider.close()


async def test_a_jwt_of_the_issuer_says_who_calls_and_keys_are_read_once(
    issuer: TestProvider, provider: IdentityProvider
) -> None:
    for name in ("ann", "bob"):
        caller = await provider.identify(issuer.sign(sub=name))
        assert (caller.name, Role.SUBMIT in caller.roles) == (f"oidc:{name}", True)
    assert issuer.asked.count("/keys") == 1
    with pytest.raises(Unauthenticated):
        await provider.identify(issuer.sign(aud="another"))
    with pytest.raises(NotAllowed):
        await provider.identify(issuer.sign(roles=["strangers"]))


async def test_a_new_key_is_found_and_the_old_one_forgotten(
    issuer: TestProvider, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = issuer.sign()
    await provider.identify(old)
    issuer.rotate()
    monkeypatch.setattr(keys_module, "LOOK_SECONDS_MIN", 0.0)
    assert (await provider.identify(issuer.sign())).name == "oidc:ann"
    with pytest.raises(Unauthenticated, match="key that is unknown"):
        await provider.identify(old)


async def test_an_issuer_that_is_away_is_no_fault_of_the_caller(issuer: TestProvider) -> None:
    away = IdentityProvider(settings(f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(Unavailable, match="does not answer"):
        await away.identify(issuer.sign())
    for problem in ("does not answer", "did not answer a moment ago"):
        with pytest.raises(Unavailable, match=problem):
            await away.begin(HOME)
    await away.close()


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"issuer": "https://evil.example"}, "says that it is"),
        ({"jwks_uri": "http://keys.example/keys"}, "no jwks_uri by https"),
        ({"token_endpoint": "file:///etc/passwd"}, "no token_endpoint by https"),
        ({"jwks_uri": None}, "no jwks_uri by https"),
    ],
)
async def test_an_issuer_that_describes_somebody_else_is_not_believed(
    issuer: TestProvider, provider: IdentityProvider, told: dict[str, Any], problem: str
) -> None:
    issuer.overrides = told
    with pytest.raises(Unavailable, match=problem):
        await provider.identify(issuer.sign())


async def log_in(provider: IdentityProvider) -> Returned:
    """Go where a browser is sent, say yes, and come back."""
    begun = await provider.begin(HOME)
    async with aiohttp.ClientSession() as browser, browser.get(begun.location) as page:
        text = await page.text()
    back = dict(parse_qsl(urlsplit(text.partition('<a href="')[2].partition('"')[0]).query))
    back = {name.removeprefix("amp;"): value for name, value in back.items()}
    assert back["state"] == begun.state
    return Returned(back["code"], begun.nonce, begun.verifier, HOME)


async def test_a_login_comes_back_with_a_code_that_is_good_once(
    issuer: TestProvider, provider: IdentityProvider
) -> None:
    returned = await log_in(provider)
    assert (await provider.finish(returned)).name == "oidc:ann"
    with pytest.raises(Unauthenticated, match="refused the login: invalid_grant"):
        await provider.finish(returned)


async def test_a_login_that_another_began_is_refused(
    issuer: TestProvider, provider: IdentityProvider
) -> None:
    for change in ({"nonce": "other"}, {"verifier": "x" * 43}, {"redirect_uri": HOME + "x"}):
        returned = await log_in(provider)
        with pytest.raises(Unauthenticated):
            await provider.finish(returned._replace(**change))


async def test_without_a_client_nobody_logs_in(issuer: TestProvider) -> None:
    provider = IdentityProvider(settings(issuer.issuer, client_id=None))
    with pytest.raises(Invalid, match="--oidc-client-id"):
        await provider.begin(HOME)
    await provider.close()


def test_secrets_are_in_no_text_of_the_settings() -> None:
    assert "hush" not in repr(settings("https://id.example", client_secret="hush"))


@pytest.mark.parametrize(
    ("address", "safe"),
    [
        ("https://id.example", True),
        ("https://id.example:8443/realms/x", True),
        ("http://127.0.0.1:9000", True),
        ("http://localhost:9000", True),
        ("http://id.example", False),
        ("https://", False),
        ("ftp://id.example", False),
        ("id.example", False),
        ("http://[", False),
    ],
)
def test_others_are_called_by_https_alone(address: str, safe: bool) -> None:
    assert is_safe(address) is safe


async def test_answers_that_are_none_are_not_believed() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it does not even listen
        provider = IdentityProvider(settings(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        with pytest.raises(Unavailable):
            await provider.begin(HOME)
        await provider.close()
