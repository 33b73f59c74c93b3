"""Four days of a cluster in some seconds: would a share rule help, a limit, or another machine?

pip install 'holdfast[server]'
python main.py            # needs no server and no database
"""

import holdfast.simulation as sim

GB = 10**9
CPU = sim.Workers(
    name="cpu",
    count=20,
    capacity=sim.Capacity(cpu=8, memory=32 * GB),
    mtbf=5 * sim.DAY,
    repair=sim.LogNormal(median=600, p95=3600),
)
GPU = sim.Workers(name="gpu", count=4, capacity=sim.Capacity(cpu=16, memory=64 * GB, gpu=4))


def train(owner: str, every: float) -> sim.Arrivals:
    """Describe gangs of four that train, each on two GPUs."""
    spec = {
        "entrypoint": {"command": ["python", "train.py"]},
        "type": "training",
        "owner": owner,
        "replicas": 4,
        "coscheduling": {},
        "resources": {"cpu": 4, "memory": "16GB", "gpu": 2},
    }
    runs = sim.LogNormal(median=0.8 * sim.HOUR, p95=2 * sim.HOUR)
    return sim.Arrivals(
        name=f"training of {owner}", every=every, work=sim.Work(spec=spec, runs=runs)
    )


REPORTS = sim.Arrivals(
    name="reports",
    every=900,
    work=sim.Work(
        spec={
            "entrypoint": {"command": ["./report"]},
            "type": "report",
            "resources": {"cpu": 2, "memory": "4GB"},
        },
        owners={"ann": 3, "ben": 1},
        runs=sim.LogNormal(median=10 * sim.MINUTE, p95=sim.HOUR),
        fails=0.05,
    ),
)
BACKUP = sim.Schedule(
    name="backup",
    terms=sim.ScheduleTerms(cron="0 3 * * *", tz="Europe/Berlin"),
    work=sim.Work(
        spec={"entrypoint": {"command": ["./backup"]}, "type": "backup"},
        tasks=20,
        runs=sim.Uniform(5 * sim.MINUTE, 20 * sim.MINUTE),
    ),
)
# Carl trains three times as much as Dora.
TRAINING = (train("carl", every=1.2 * sim.HOUR), train("dora", every=3.6 * sim.HOUR))


def play(
    gpus: int = 4,
    shares: dict[str, sim.ShareRule] | None = None,
    limits: dict[str, sim.UsageLimit] | None = None,
) -> sim.Report:
    """Play four days out."""
    plan = sim.Plan(
        fleet=[CPU, sim.Workers(name="gpu", count=gpus, capacity=GPU.capacity)],
        arrivals=[*TRAINING, REPORTS],
        schedules=[BACKUP],
        policies={"report": sim.TypePolicy(sim.PolicyDefaults(max_attempts=3))},
        shares=shares or {},
        limits=limits or {},
        # A server that is away from three in the morning on, for as long as it takes to fix it.
        outages=[sim.Outage(at=2 * sim.DAY + 1.9 * sim.HOUR, seconds=20 * sim.MINUTE)],
    )
    return sim.run(plan, seed=2026, days=4)


def main() -> None:
    """Compare what could be done."""
    as_it_is = play()
    print(as_it_is.as_text())
    one_each = sim.UsageLimit(scope="owner", kind="concurrency", most=4, in_type="training")
    for name, report in (
        ("as it is", as_it_is),
        ("shared by owner", play(shares={"": sim.ShareRule("owner")})),
        ("one gang each", play(limits={"one-gang-each": one_each})),
        ("one GPU host more", play(gpus=5)),
        ("two GPU hosts more", play(gpus=6)),
    ):
        waits = [report.waits_by_owner[owner].p95 / sim.HOUR for owner in ("carl", "dora")]
        print(f"{name:20} p95 of carl {waits[0]:5.1f} h, of dora {waits[1]:5.1f} h")


if __name__ == "__main__":
    main()
