"""Who does something, as far as a server knows it."""

from typing import Self


class Actor(str):
    """The name of a caller whom a server knows, and the id of his token, empty if he has none.

    A name may be given again once its token is revoked.
    """

    __slots__ = ("token_id",)
    token_id: str

    def __new__(cls, name: str, token_id: str) -> Self:
        """Name who was known."""
        actor = super().__new__(cls, name)
        actor.token_id = token_id
        return actor


def token_of(actor: str) -> str | None:
    """Give the id of the token that somebody has shown; None if it was something else, or none."""
    return actor.token_id or None if isinstance(actor, Actor) else None


def proven(actor: str) -> str | None:
    """Give the name of somebody whom the server knows; None if he only says who he is."""
    return str(actor) if isinstance(actor, Actor) else None
