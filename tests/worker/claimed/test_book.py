"""The book of a worker of queues: what is free, what is offered, what is taken."""

from holdfast.model.workers.resources import Capacity, Resources
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.book import Book, SharedBook
from tests.worker.claims import an_attempt

TWO = Capacity(cpu=2.0, memory=100, disk=100)


def sized(cpu: float, memory: int = 0) -> Attempt:
    """Make an attempt that takes some of the worker."""
    return an_attempt(resources=Resources(cpu=cpu, memory=memory))


def test_what_attempts_take_is_not_free_until_they_end() -> None:
    book, first = Book(TWO), sized(1.5, memory=60)
    assert book.take([first, an_attempt()]) == []
    with book.offer() as free:
        assert free == Capacity(cpu=0.5, memory=40, disk=100)
    book.give_back(first)
    with book.offer() as free:
        assert free == TWO


def test_that_more_is_free_is_known_until_it_is_offered() -> None:
    book, attempt = Book(TWO), sized(1)
    book.take([attempt])
    book.give_back(attempt)
    assert book.has_grown
    with book.offer():
        pass
    assert not book.has_grown


def test_what_one_claim_offers_no_other_does() -> None:
    book = Book(TWO)
    with book.offer() as free, book.offer() as rest:
        assert free == TWO
        assert rest == Capacity()
    with book.offer() as free:
        assert free == TWO


def test_what_does_not_fit_is_left() -> None:
    book, large = Book(TWO), sized(1, memory=101)
    ones = [sized(1) for _ in range(3)]
    assert book.take([large, *ones]) == [large, ones[2]]
    book.give_back(large)
    assert not book.has_grown


def test_without_a_capacity_nothing_is_kept() -> None:
    book, attempt = Book(None), sized(99)
    assert book.take([attempt]) == []
    with book.offer() as free:
        assert free is None
    book.give_back(attempt)
    assert not book.has_grown


def test_a_shared_book_is_whole_while_neither_half_has_anything() -> None:
    placed = 1
    book = SharedBook("b", lambda: placed)
    with book.offer() as free:
        assert free is None, "the server counts"
        assert not book.is_whole(free)
        placed = 0
        assert book.is_whole(free)
    attempt = sized(99)
    assert book.take([attempt, an_attempt()]) == []
    assert not book.is_whole(None)
    book.give_back(attempt)
    assert book.is_whole(None)
    assert book.has_grown
