"""Where a worker listens: on loopback as it is, elsewhere by TLS, and where it is called."""

from pathlib import Path

import pytest

from holdfast.cli.listening import NOWHERE, ListenFlags, split_address
from holdfast.cli.tls import NO_TLS, TlsFlags
from holdfast.errors import Invalid
from holdfast.worker.placed.listener import ListenerTls
from tests.certificates import TestAuthority


def test_by_default_it_is_loopback_without_tls() -> None:
    assert NOWHERE.read(NO_TLS, is_placed=False) == {}
    read = NOWHERE.read(NO_TLS, is_placed=True)
    assert read == {"host": "127.0.0.1", "port": 0, "advertised": None, "tls": None}


def test_beyond_loopback_it_is_called_by_tls(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path / "ca")
    made = authority.issue("w", "10.0.0.7")
    tls = TlsFlags(tls_cert=made.cert, tls_key=made.key, ca_file=authority.ca_file)
    used = ListenerTls(made, authority.ca_file)
    for flags, host, advertised in (
        (ListenFlags(listen="10.0.0.7:7900"), "10.0.0.7", "10.0.0.7"),
        (ListenFlags(listen="[2001:db8::1]:7900"), "2001:db8::1", "[2001:db8::1]"),
        (ListenFlags(listen="0.0.0.0:7900", advertise="ten"), "0.0.0.0", "ten"),
    ):
        read = flags.read(tls, is_placed=True)
        assert read == {"host": host, "port": 7900, "advertised": advertised, "tls": used}


def test_what_could_not_be_called_is_refused_with_a_remedy(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path / "ca")
    made, ca = authority.issue("w", "10.0.0.7"), authority.ca_file
    good = TlsFlags(tls_cert=made.cert, tls_key=made.key, ca_file=ca)
    lonely = TlsFlags(tls_cert=made.cert, tls_key=made.key)
    missing = TlsFlags(tls_cert=made.cert, tls_key=tmp_path / "no", ca_file=ca)
    for listen, tls, problem in (
        ("10.0.0.7", NO_TLS, "listen: 10.0.0.7 is not a loopback .*--tls-cert"),
        ("0.0.0.0", good, "advertise: is missing"),
        ("10.0.0.7", lonely, "tls_client_ca: is missing; name the CA"),
        ("127.0.0.1", missing, "tls_key: there is no file"),
    ):
        with pytest.raises(Invalid, match=problem):
            ListenFlags(listen=listen).read(tls, is_placed=True)
    with pytest.raises(Invalid, match="listen: goes with --placed"):
        ListenFlags(listen="127.0.0.1").read(NO_TLS, is_placed=False)


def test_an_address_may_have_a_port() -> None:
    assert split_address("10.0.0.7") == ("10.0.0.7", 0)
    assert split_address("here:7900") == ("here", 7900)
    assert split_address("::1") == ("::1", 0)
    assert split_address("[::1]") == ("::1", 0)
    assert split_address("[::1]:7900") == ("::1", 7900)
    for text in ("", ":7900", "here:x", "here:70000"):
        with pytest.raises(Invalid, match="is no address; write it like"):
            split_address(text)
