"""`tokens`: the first on the database, the others through a server that asks for them."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from holdfast.cli.app import main
from holdfast.cli.commands.upkeep.tokens import parse_expiry
from holdfast.errors import Invalid
from tests.cli.conftest import Service, living, served_at
from tests.cli.program import Ended, eventually


def call(*arguments: str) -> Ended:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return Ended(code, out.getvalue(), err.getvalue())


def test_a_server_that_asks_for_tokens_serves_who_shows_one(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--database-url", database_url)
    first = call("tokens", "create", "--name=root", "--role=admin", *at)
    assert (first.code, first.err.count("only time")) == (0, 1)
    keys = {"root": tmp_path / "root"}
    keys["root"].write_text(first.out)
    # So that what `--token-file` sets here is undone afterwards.
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", "")
    with living(tmp_path, "server", *at, "--port=0", "--require-tokens") as server:
        url = served_at(server)
        monkeypatch.setenv("HOLDFAST_SERVER", url)
        monkeypatch.delenv("HOLDFAST_TOKEN_FILE")
        stranger = call("jobs")
        assert (stranger.code, stranger.out) == (2, "")
        assert "this server asks for a token" in stranger.err
        made = call(
            *(f"--token-file={keys['root']}", "tokens", "create", "--json"),
            *("--name=hands", "--role=worker", "--queue=default", "--expires=1d"),
        )
        secret = json.loads(made.out)["token"]
        keys["hands"] = tmp_path / "hands"
        keys["hands"].write_text(secret)
        refused = call("--token-file", str(keys["hands"]), "tokens", "list")
        assert (refused.code, secret in refused.err) == (2, False)
        assert "asks for the role admin, which the token 'hands' lacks" in refused.err
        options = ("--name=hands", "--import=tests.cli.tasks", "--drain-seconds=1")
        with living(
            tmp_path,
            *("--token-file", str(keys["hands"]), "worker", *options),
            HOLDFAST_SERVER=url,
            HOLDFAST_WORKER_DIR=str(tmp_path / "workers"),
        ):
            monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(keys["root"]))
            service = Service(url, tmp_path)
            job = service.submit_and_wait("tests.cli.tasks:add", "--arg=1", "--arg=2")
            assert service.ask("job", job)["owner"] == "root"
            assert service.ask("job", job)["state"].endswith("SUCCEEDED")
            listed = service.call("tokens", "list").out
            assert "hands" in listed
            assert service.call("tokens", "revoke", "hands").out == "token hands is revoked\n"
            monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(keys["hands"]))
            eventually(lambda: service.call("jobs").code == 2)
    logs = "".join(file.read_text() for file in tmp_path.glob("*.log"))
    assert not any(key.read_text().strip() in logs for key in keys.values())


def test_on_the_database_they_are_rotated_listed_and_revoked(database_url: str) -> None:
    at = ("--database-url", database_url)
    made = json.loads(call("tokens", "create", "--name=a", "--role=read", "--json", *at).out)
    again = json.loads(call("tokens", "rotate", "a", "--grace=1m", "--json", *at).out)
    assert made["token_id"] == again["token_id"]
    assert made["token"] != again["token"]
    [token] = json.loads(call("tokens", "list", "--json", *at).out)["tokens"]
    assert token["created_by"].endswith("(database)")
    assert call("tokens", "revoke", "a", *at).code == 0
    assert "no tokens" in call("tokens", "list", *at).err
    assert "revoked" in call("tokens", "list", "--revoked", *at).out
    assert call("tokens", "revoke", "a", *at).code == 1
    unknown = call("tokens", "create", "--name=a", "--role=boss", *at)
    assert (unknown.code, "roles: 'boss' is unknown" in unknown.err) == (2, True)


def test_an_expiry_is_a_span_from_now_or_a_time() -> None:
    assert parse_expiry(None) is None
    span, moment = parse_expiry("90d"), parse_expiry("2999-01-31T12:00+00:00")
    assert span is not None
    assert moment is not None
    assert (moment.year, moment.month, moment.hour) == (2999, 1, 12)
    assert span < moment
    with pytest.raises(Invalid, match="--expires"):
        parse_expiry("soon")


def test_a_bind_beyond_loopback_says_what_it_lacks() -> None:
    said = call("server", "--host=0.0.0.0", "--database-url=postgresql://127.0.0.1:1/nowhere")
    assert said.code == 2
    assert "--require-tokens" in said.err
    assert "--behind-proxy" in said.err
