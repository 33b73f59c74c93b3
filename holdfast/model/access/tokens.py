"""The text of a token, and its parts: `hf_`, an id to find it by, `_`, a secret of 256 bits.

The prefix and the fixed lengths let scanners of repositories and logs know one when they see it.
"""

import hashlib
import re
import secrets
from typing import NamedTuple

ID_LENGTH, SECRET_LENGTH = 12, 64
JWT_LENGTH_MAX = 16_384
_TOKEN = re.compile(rf"hf_([0-9a-f]{{{ID_LENGTH}}})_([0-9a-f]{{{SECRET_LENGTH}}})")

# Three parts in base64; the first is a JSON object, so it begins with `{"`.
_JWT = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*", re.ASCII)


class Presented(NamedTuple):
    """A token as a caller shows it: its id, and the hash of its secret."""

    token_id: str
    secret_hash: bytes


def new_token_id() -> str:
    """Choose an id for a token."""
    return secrets.token_hex(ID_LENGTH // 2)


def new_secret() -> str:
    """Choose a secret that nobody guesses."""
    return secrets.token_hex(SECRET_LENGTH // 2)


def hash_secret(secret: str) -> bytes:
    """Hash a secret; no slow hash is needed where there are 256 random bits to guess."""
    return hashlib.sha256(secret.encode()).digest()


def write_token(token_id: str, secret: str) -> str:
    """Write a token as callers have it."""
    return f"hf_{token_id}_{secret}"


def is_token_id(text: str) -> bool:
    """Tell whether a text could be the id of a token."""
    return re.fullmatch(rf"[0-9a-f]{{{ID_LENGTH}}}", text) is not None


def is_token(text: str) -> bool:
    """Tell whether a text has the form of a token."""
    return _TOKEN.fullmatch(text) is not None


def is_jwt(text: str) -> bool:
    """Tell whether a text has the form of a JWT, which an identity provider issues."""
    return len(text) <= JWT_LENGTH_MAX and _JWT.fullmatch(text) is not None


def parse_token(text: str) -> Presented | None:
    """Take a token apart; None if it has not that form."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else Presented(found[1], hash_secret(found[2]))
