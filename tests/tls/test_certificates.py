"""What stands in a certificate: until when it is good, and for whom."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.errors import Invalid
from holdfast.tls.certificates import check_valid, list_names, utc_now, warning_of
from tests.certificates import TestAuthority


def test_a_certificate_is_good_for_its_days(authority: TestAuthority, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    cert = authority.issue("s", days=40).cert
    assert timedelta(days=39) < check_valid(cert, now) - now <= timedelta(days=40)
    with pytest.raises(Invalid, match=r"tls_cert: .* has expired on .*; issue a new one"):
        check_valid(cert, now + timedelta(days=41))
    with pytest.raises(Invalid, match=r"is not valid before .*; set the clock"):
        check_valid(cert, now - timedelta(days=1))
    with pytest.raises(Invalid, match="there is no file"):
        check_valid(tmp_path / "none", now)
    with pytest.raises(Invalid, match="holds no certificate"):
        check_valid(authority.issue("k").key, now)


def test_its_end_is_announced_a_month_before(authority: TestAuthority) -> None:
    cert = authority.issue("s", days=40).cert
    assert warning_of(cert, utc_now()) is None
    said = warning_of(cert, utc_now() + timedelta(days=11))
    assert said is not None
    assert "expires in 28 days" in said


def test_its_names_are_those_of_urls(authority: TestAuthority) -> None:
    names = ["a.example", "10.0.0.1", "::1"]
    assert list_names(authority.issue("s", *names).cert) == ["a.example", "10.0.0.1", "[::1]"]
    assert list_names(authority.ca_file) == []
