"""Who does something."""

from holdfast.model.access.actors import Actor, proven, token_of


def test_an_actor_is_a_name_that_knows_its_token() -> None:
    actor = Actor("ci", "0123")
    assert (actor, f"{actor}", token_of(actor), proven(actor)) == ("ci", "ci", "0123", "ci")
    assert type(proven(actor)) is str


def test_who_is_known_without_a_token_has_a_proven_name() -> None:
    actor = Actor("oidc:ada", "")
    assert (token_of(actor), proven(actor)) == (None, "oidc:ada")


def test_a_name_alone_proves_nothing() -> None:
    assert (token_of("ci"), proven("ci")) == (None, None)
