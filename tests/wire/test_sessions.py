"""Sessions on the wire."""

import msgspec
import pytest

from holdfast.wire.sessions import LoginRequest


def test_what_is_handed_in_is_not_long() -> None:
    asked = msgspec.json.decode(b'{"token":"hf_x"}', type=LoginRequest)
    assert (asked.token, asked.oidc, asked.path) == ("hf_x", None, "/")
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"token":"%s"}' % (b"x" * 5000), type=LoginRequest)
    with pytest.raises(msgspec.ValidationError, match="password"):
        msgspec.json.decode(b'{"password":"x"}', type=LoginRequest)
