"""`holdfast ca`: a CA and a certificate, by the program itself."""

from pathlib import Path

from holdfast.tls.certificates import list_names
from holdfast.tls.contexts import Identity, build_client_context, build_server_context
from tests.certificates import shake_hands
from tests.cli.program import run


def test_a_ca_issues_a_certificate_that_is_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "ca"
    made = run("ca", "init", str(folder))
    assert made.code == 0, made.err
    assert str(folder / "ca.pem") in made.out
    issued = run("ca", "issue", str(folder), "one", "--host", "one.example", "--days", "9")
    assert issued.code == 0, issued.err
    assert list_names(folder / "one.pem") == ["one.example"]
    server = build_server_context(Identity(folder / "one.pem", folder / "one.key"))
    shake_hands(server, build_client_context(folder / "ca.pem"), "one.example")
    again = run("ca", "issue", str(folder), "one", "--host", "one.example")
    assert again.code == 2
    assert "exists already; move it away" in again.err
