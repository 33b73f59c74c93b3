"""Tokens on the wire."""

import msgspec
import pytest

from holdfast.wire.tokens import TokenRequest


def test_a_token_is_for_all_unless_it_says_for_whom() -> None:
    asked = msgspec.json.decode(b'{"name":"ci","roles":["read"]}', type=TokenRequest)
    assert (asked.owners, asked.queues, asked.expires_at) == ([], [], None)
    with pytest.raises(msgspec.ValidationError, match="scope"):
        msgspec.json.decode(b'{"name":"ci","roles":[],"scope":"x"}', type=TokenRequest)
