"""Keys are read when they are needed, and no more often than that."""

from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from holdfast.errors import Unauthenticated, Unavailable
from holdfast.services.identity import keys as module
from holdfast.services.identity.keys import IssuerKeys


def public(kid: str | None, **fields: Any) -> dict[str, Any]:
    parameters: Any = {} if kid is None else {"kid": kid}
    told: dict[str, Any] = RSAKey.generate_key(2048, parameters).as_dict(private=False)
    if kid is None:
        told.pop("kid", None)
    return told | fields


class Source:
    """Where keys come from, and how often somebody asked."""

    def __init__(self, *told: Any) -> None:
        self.told: list[Any] = list(told)
        self.asked = 0
        self.is_away = False

    async def __call__(self) -> list[Any]:
        """Give the keys, unless it is away."""
        self.asked += 1
        if self.is_away:
            raise Unavailable("away")
        return list(self.told)


async def test_strangers_have_the_keys_read_again_at_a_bounded_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source(public("a"))
    keys = IssuerKeys(source)
    await keys.find("a")
    for _ in range(3):
        with pytest.raises(Unauthenticated, match="unknown: 'b'"):
            await keys.find("b")
    await keys.find("a")
    assert (source.asked, keys.changes) == (1, 0)
    source.told = [public("b")]
    monkeypatch.setattr(module, "LOOK_SECONDS_MIN", 0.0)
    await keys.find("b")
    with pytest.raises(Unauthenticated):  # what the provider no longer names is no key
        await keys.find("a")
    assert keys.changes == 1


async def test_while_the_provider_is_away_known_keys_are_good_and_others_have_to_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(public("a"))
    source.is_away = True
    keys = IssuerKeys(source)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await keys.find("a")
    assert source.asked == 1
    monkeypatch.setattr(module, "LOOK_SECONDS_MIN", 0.0)
    source.is_away = False
    await keys.find("a")
    source.is_away = True
    assert await keys.read() == 0
    assert "away" in caplog.text
    await keys.find("a")
    with pytest.raises(Unavailable):
        await keys.find("b")


async def test_only_keys_that_sign_by_a_pair_are_taken(caplog: pytest.LogCaptureFixture) -> None:
    shared = OctKey.generate_key(256, {"kid": "shared"}).as_dict()
    curve = ECKey.generate_key("P-256", {"kid": "curve"}).as_dict(private=False)
    broken = public("broken", n="!")
    source = Source(shared, public("secret", use="enc"), broken, "text", public("a"), curve)
    keys = IssuerKeys(source)
    assert (await keys.find("curve")).key_type == "EC"
    await keys.find("a")
    assert "cannot be used" in caplog.text
    for kid in ("shared", "secret", "broken", None):
        with pytest.raises(Unauthenticated):
            await keys.find(kid)


async def test_a_jwt_that_names_no_key_is_of_the_only_one() -> None:
    assert await IssuerKeys(Source(public("a"))).find(None)
    assert await IssuerKeys(Source(public(None))).find(None)
    with pytest.raises(Unauthenticated):
        await IssuerKeys(Source(public("a"), public("b"))).find(None)
