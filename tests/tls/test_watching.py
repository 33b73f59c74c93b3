"""A context follows its files, and stays as it was while they cannot be used."""

import logging
from functools import partial

import pytest

from holdfast.tls.contexts import Identity, build_client_context, build_server_context
from holdfast.tls.watching import WatchedContext
from tests.certificates import TestAuthority, put, shake_hands


def watch(identity: Identity) -> WatchedContext:
    """Watch a certificate, and look whenever it is used."""
    files = [identity.cert, identity.key]
    return WatchedContext(files, partial(build_server_context, identity), look_seconds=0)


def test_a_new_certificate_is_shown_to_the_next_caller(authority: TestAuthority) -> None:
    used = authority.issue("s", "old.example")
    listening = watch(used).listening()
    client = build_client_context(authority.ca_file)
    shake_hands(listening, client, "old.example")
    put(authority.issue("n", "new.example"), used)
    caller, _ = shake_hands(listening, client, "new.example")
    shown = caller.getpeercert()
    assert shown is not None
    assert shown["subjectAltName"] == (("DNS", "new.example"),)


def test_an_address_gives_no_name_and_gets_the_new_one_too(authority: TestAuthority) -> None:
    used = authority.issue("s")
    listening = watch(used).listening()
    put(authority.issue("n", "127.0.0.9"), used)
    shake_hands(listening, build_client_context(authority.ca_file), "127.0.0.9")


def test_a_broken_file_is_said_once_and_the_old_one_stays(
    authority: TestAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast.tls")
    used = authority.issue("s", "old.example")
    watched = watch(used)
    listening, client = watched.listening(), build_client_context(authority.ca_file)
    kept = used.key.read_bytes()
    used.key.write_text("half of a ke")
    for _ in range(2):
        shake_hands(listening, client, "old.example")
    [said] = caplog.messages
    assert "the old ones stay in use: tls_key:" in said
    used.key.write_bytes(kept)
    assert watched.look()
    assert not watched.look()
    shake_hands(listening, client, "old.example")


def test_files_are_not_looked_at_all_the_time(authority: TestAuthority) -> None:
    used = authority.issue("s")
    build = partial(build_server_context, used)
    watched = WatchedContext([used.cert, used.key], build, look_seconds=3600)
    first = watched.current()
    put(authority.issue("n"), used)
    assert watched.current() is first
