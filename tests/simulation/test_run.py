"""A run follows from its plan and its seed."""

import holdfast.simulation as sim
from tests.simulation.small_plans import MAIL, placed, play


def test_the_same_seed_gives_the_same_report_byte_for_byte() -> None:
    def random_days(seed: int) -> bytes:
        mail = sim.Work(spec=MAIL, runs=sim.LogNormal(60, 600), fails=0.2, owners={"a": 2, "b": 1})
        claiming = placed(3, queues=("mail",), mtbf=40_000.0, repair=sim.Exponential(900))
        coming = sim.Arrivals(name="mail", every=120, work=mail)
        return play(2, seed, fleet=[claiming], arrivals=[coming]).as_json()

    assert random_days(1) == random_days(1)
    assert random_days(1) != random_days(2)
