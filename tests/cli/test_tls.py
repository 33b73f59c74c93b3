"""The flags of TLS: what goes together, and the CA in front of every command."""

import os
from pathlib import Path

import pytest

from holdfast.cli.tls import NO_TLS, TlsFlags, take_ca_file
from holdfast.errors import Invalid
from holdfast.tls.contexts import Identity

HERE = Path("a.pem")


def test_a_certificate_goes_with_its_key() -> None:
    assert NO_TLS.identity() is None
    both = TlsFlags(tls_cert=HERE, tls_key=HERE, tls_client_ca=HERE)
    assert both.identity() == Identity(HERE, HERE)
    for flags, problem in (
        (TlsFlags(tls_cert=HERE), "tls_key: is missing; it goes with tls_cert"),
        (TlsFlags(tls_key=HERE), "tls_cert: is missing; it goes with tls_key"),
        (TlsFlags(tls_client_ca=HERE), "tls_client_ca: goes with tls_cert and tls_key"),
    ):
        with pytest.raises(Invalid, match=problem):
            flags.identity()


def test_the_ca_stands_before_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CA_FILE", "old")
    after = ["run", "--", "curl", "--ca-file", "x"]
    for given in ([], after, ["--version"]):
        assert take_ca_file(given) == given
    assert os.environ["HOLDFAST_CA_FILE"] == "old"
    assert take_ca_file(["--ca-file", "a.pem", *after]) == after
    assert os.environ["HOLDFAST_CA_FILE"] == "a.pem"
    assert take_ca_file(["--ca-file=b.pem", "jobs"]) == ["jobs"]
    assert os.environ["HOLDFAST_CA_FILE"] == "b.pem"
    for given in (["--ca-file"], ["--ca-file="]):
        with pytest.raises(Invalid, match="is followed by the file of a CA"):
            take_ca_file(given)
