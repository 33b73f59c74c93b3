"""The mark of an attempt: its processes carry it, so that they are found, and it is no secret."""

from hashlib import sha256

_DIGITS = 32


def mark_of(token: str) -> str:
    """Derive the mark of an attempt from its lease token, to which nothing leads back."""
    return sha256(token.encode()).hexdigest()[:_DIGITS]
