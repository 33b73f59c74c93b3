"""A CA in a folder: what it issues, and what it refuses to write over."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.errors import Invalid
from holdfast.tls.authority import create_authority, issue
from tests.certificates import TestAuthority

NOW = datetime.now(UTC)


def test_keys_are_for_their_owner_alone(authority: TestAuthority) -> None:
    made = authority.issue("one")
    assert authority.folder.stat().st_mode & 0o777 == 0o700
    for key in (made.key, authority.folder / "ca.key"):
        assert key.stat().st_mode & 0o777 == 0o600


def test_nothing_is_written_over(authority: TestAuthority) -> None:
    authority.issue("one")
    (authority.folder / "two.key").symlink_to("nowhere")
    before = {path: path.read_bytes() for path in authority.folder.glob("*.pem")}
    for again in ("one", "two"):
        with pytest.raises(Invalid, match=f"{again}.* exists already; move it away"):
            authority.issue(again)
    with pytest.raises(Invalid, match="exists already"):
        create_authority(authority.folder, NOW)
    assert {path: path.read_bytes() for path in authority.folder.glob("*.pem")} == before


def test_what_cannot_be_right_is_refused_and_writes_nothing(
    authority: TestAuthority, tmp_path: Path
) -> None:
    before = set(authority.folder.iterdir())
    good = {"hosts": ["a"], "now": NOW}
    for name, wrong, problem in (
        ("../x", {}, "name: '../x' cannot be the name of a file"),
        ("ca", {}, "name: 'ca' cannot"),
        ("x", {"hosts": []}, "host: is missing; name each host"),
        ("x", {"hosts": ["https://a"]}, "host: 'https://a' is no host"),
        ("x", {"hosts": ["a:80"]}, "host: 'a:80' is no host"),
        ("x", {"hosts": ["a"] * 101}, "host: is given 101 times"),
        ("x", {"days": 0}, "days: is 0; use 1 to"),
        ("x", {"days": 4000}, "days: is 4000, and the CA itself expires in"),
    ):
        with pytest.raises(Invalid, match=problem):
            issue(authority.folder, name, **{**good, **wrong})  # type: ignore[arg-type]
    assert set(authority.folder.iterdir()) == before
    with pytest.raises(Invalid, match=r"holds no CA .* make one with `holdfast ca init"):
        issue(tmp_path / "none", "x", ["a"], now=NOW)
    (authority.folder / "ca.key").write_text("broken")
    with pytest.raises(Invalid, match="cannot be read"):
        authority.issue("x")


def test_a_client_needs_no_host(authority: TestAuthority) -> None:
    made = issue(authority.folder, "c", [], now=NOW, role="client", days=3649)
    assert made.cert.exists()
    with pytest.raises(Invalid, match="the CA itself expires"):
        issue(authority.folder, "d", [], now=NOW + timedelta(days=2), role="client", days=3649)
