"""The certificate of a server: refused once it has expired, announced before."""

import logging
from datetime import timedelta

import pytest

from holdfast.errors import Invalid
from holdfast.tls.contexts import build_client_context
from holdfast.tls.serving import ServerTls
from tests.certificates import TestAuthority, put, shake_hands


def test_an_expired_certificate_is_refused(authority: TestAuthority) -> None:
    with pytest.raises(Invalid, match="has expired"):
        ServerTls(authority.issue("s", days=1, ago=timedelta(days=2)))


async def test_a_new_one_that_has_expired_is_not_used(
    authority: TestAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    used = authority.issue("s", days=10)
    tls = ServerTls(used)
    assert "expires in 9 days" in caplog.text
    listening, expires_at = tls.listening(), tls.expires_at
    put(authority.issue("n", days=1, ago=timedelta(days=2)), used)
    assert await tls.look() == 0
    assert "has expired" in caplog.text
    assert tls.expires_at == expires_at
    shake_hands(listening, build_client_context(authority.ca_file))
    put(authority.issue("m", days=20), used)
    await tls.look()
    assert tls.expires_at > expires_at
    assert tls.names == ("localhost", "127.0.0.1")
    assert logging.WARNING in {record.levelno for record in caplog.records}
