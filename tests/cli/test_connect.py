"""A server that is not there yet, not there at all, or no Holdfast."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from holdfast.cli import connect
from holdfast.cli.connect import knock
from holdfast.errors import Unavailable
from holdfast.tls.calling import CertificateRefused
from holdfast.tls.contexts import build_server_context
from tests.certificates import TestAuthority
from tests.cli.program import run


@contextmanager
def reserved_port() -> Iterator[int]:
    """Hold a port that nobody listens on."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_without_a_server_it_says_so_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connect, "KNOCK_SECONDS_MAX", 0.5)
    with reserved_port() as port, pytest.raises(Unavailable, match="`holdfast up`") as caught:
        knock(f"http://me:secret@127.0.0.1:{port}")
    said = capsys.readouterr().err
    assert said.count("trying for") == 1
    # A login in the address is for the server alone.
    assert "secret" not in f"{said}{caught.value}"
    assert f"http://127.0.0.1:{port} yet" in said


def test_a_server_that_is_just_starting_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    with reserved_port() as port:
        pass
    late = threading.Timer(0.3, listen_once, [port])
    late.start()
    knock(f"http://127.0.0.1:{port}")
    late.join()
    assert "trying for" in capsys.readouterr().err


def listen_once(port: int) -> None:
    """Listen on a port until somebody comes."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        listening.settimeout(60)
        listening.accept()[0].close()


def test_a_certificate_that_is_refused_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = TestAuthority(tmp_path / "ca")
    context = build_server_context(authority.issue("s", "localhost"))

    def serve(listening: socket.socket) -> None:
        for _ in range(3):
            with listening.accept()[0] as caller, suppress(ssl.SSLError, ConnectionError):
                context.wrap_socket(caller, server_side=True).close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, args=[listening])
        serving.start()
        port = listening.getsockname()[1]
        with pytest.raises(CertificateRefused, match="HOLDFAST_CA_FILE or --ca-file"):
            knock(f"https://localhost:{port}")
        monkeypatch.setenv("HOLDFAST_CA_FILE", str(authority.ca_file))
        with pytest.raises(CertificateRefused, match="call it by a name that is in it"):
            knock(f"https://127.0.0.1:{port}")
        knock(f"https://localhost:{port}")
        serving.join()


class Other(BaseHTTPRequestHandler):
    """Somebody who speaks HTTP and JSON, but is no Holdfast."""

    def answer(self) -> None:
        """Answer with JSON of some kind."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"cats": 3}')

    do_GET = answer

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_somebody_else_at_the_address_is_told_apart() -> None:
    with HTTPServer(("127.0.0.1", 0), Other) as other:
        serving = threading.Thread(target=other.serve_forever)
        serving.start()
        ended = run("jobs", "--server", f"http://127.0.0.1:{other.server_port}")
        other.shutdown()
        serving.join()
    assert (ended.code, ended.out) == (2, "")
    assert "not Holdfast" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://", "http://127.0.0.1:port"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    ended = run("jobs", "--server", url)
    assert (ended.code, ended.out) == (2, "")
    assert "is not a URL" in ended.err
