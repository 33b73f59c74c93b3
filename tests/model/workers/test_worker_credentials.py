"""The credential of a worker, as a header and as text; its secret is shown nowhere else."""

import pytest

from holdfast.errors import Invalid
from holdfast.model.access.tokens import hash_secret
from holdfast.model.workers.worker_credentials import (
    ShownCredential,
    WorkerCredential,
    check_secret,
    parse_header,
    read_credential,
)


def test_each_incarnation_has_an_id_and_a_secret_of_its_own() -> None:
    first, second = WorkerCredential.make("host"), WorkerCredential.make("host")
    assert first.worker_id.startswith("host-")
    assert first.worker_id != second.worker_id
    assert first.secret != second.secret
    assert first.secret not in repr(first)
    assert check_secret("secret", first.secret) == first.secret


def test_what_a_server_shows_is_the_hash_of_what_a_worker_shows() -> None:
    made = WorkerCredential.make("host")
    shown = parse_header(made.header.encode())
    assert shown == ShownCredential(made.worker_id, hash_secret(made.secret))
    assert made.call_secret == shown.secret_hash.hex()
    assert read_credential(made.header) == made


@pytest.mark.parametrize("text", ["", "w", "w ", "w short", f"w {'s' * 257}", f"w {'s' * 16} x"])
def test_what_is_none_is_none(text: str) -> None:
    assert parse_header(text.encode()) is None
    assert read_credential(text) is None


def test_an_id_that_is_none_is_not_read() -> None:
    assert read_credential(f"-w {'s' * 16}") is None


@pytest.mark.parametrize("secret", ["", "short", "s" * 257, "s" * 16 + "\x00", "s" * 16 + " "])
def test_a_secret_that_no_header_carries_is_refused(secret: str) -> None:
    with pytest.raises(Invalid, match="make a random one"):
        check_secret("secret", secret)
