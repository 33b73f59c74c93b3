"""The virtual clock."""

from holdfast.simulation.agenda import Agenda


def test_things_happen_in_their_order_and_what_was_called_off_does_not() -> None:
    agenda, seen = Agenda(), list[tuple[str, float]]()

    def note(name: str) -> None:
        seen.append((name, agenda.now))

    def note_two() -> None:
        agenda.note(0.5, lambda: note("at once"))
        note("first")

    agenda.note(2.0, lambda: note("second"))
    agenda.note(1.0, note_two)
    agenda.note(2.0, lambda: note("third"))
    agenda.note(1.5, lambda: note("never")).call_off()
    agenda.note(9.0, lambda: note("too late"))
    agenda.run(5.0)
    assert seen == [("first", 1.0), ("at once", 1.0), ("second", 2.0), ("third", 2.0)]
    assert agenda.now == 5.0
