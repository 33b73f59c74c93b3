"""The text of a token."""

import hashlib
import re

import pytest

from holdfast.model.access.tokens import (
    JWT_LENGTH_MAX,
    hash_secret,
    is_jwt,
    is_token,
    is_token_id,
    new_secret,
    new_token_id,
    parse_token,
    write_token,
)


def test_a_token_can_be_told_by_its_form_and_taken_apart() -> None:
    token_id, secret = new_token_id(), new_secret()
    text = write_token(token_id, secret)
    assert re.fullmatch(r"hf_[0-9a-f]{12}_[0-9a-f]{64}", text)
    assert is_token(text)
    assert is_token_id(token_id)
    shown = parse_token(text)
    assert shown is not None
    assert shown == (token_id, hashlib.sha256(secret.encode()).digest())
    assert hash_secret(secret) == shown.secret_hash


def test_no_two_are_alike() -> None:
    assert new_secret() != new_secret()
    assert new_token_id() != new_token_id()


@pytest.mark.parametrize(
    "text", ["", "hf_", "hf_" + "0" * 12 + "_" + "g" * 64, "x" * 80, "hf_" + "0" * 12 + "_1\n"]
)
def test_anything_else_is_none(text: str) -> None:
    assert parse_token(text) is None
    assert not is_token(text)
    assert not is_jwt(text)


def test_a_jwt_is_known_by_its_parts() -> None:
    assert is_jwt("eyJhbGciOiJSUzI1NiJ9.e30.c2ln")
    assert is_jwt("eyJhbGciOiJub25lIn0.e30.")  # it is one, and refused as such
    for text in ("eyJhbGci.e30", "a.b.c", "eyJ.e30.c2ln", "eyJhbGci.e 0.c2ln", "eyJ\u00e4.e30.x"):
        assert not is_jwt(text)
    assert not is_jwt("eyJ" + "x" * JWT_LENGTH_MAX + ".e30.c2ln")
