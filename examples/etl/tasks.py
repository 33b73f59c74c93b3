"""What the workers run: read lines of orders, sum them up, write a report."""

from collections import Counter

import holdfast as hf


@hf.task(queue="etl")
def read_order(line: str) -> tuple[str, int]:
    """Read `customer,euros`; gives the customer and the cents."""
    try:
        customer, euros = line.split(",")
        return customer, round(float(euros) * 100)
    except ValueError as error:
        # No retry would help: it becomes a dead letter at once, and waits for a decision.
        raise hf.ValidationError(f"{line!r} is no order: {error}") from error


@hf.task(queue="etl")
def sum_up(orders: list[tuple[str, int]]) -> dict[str, int]:
    """Add up the cents of each customer."""
    sums: Counter[str] = Counter()
    for customer, cents in orders:
        sums[customer] += cents
    return dict(sums)


@hf.task(queue="etl")
def report(sums: dict[str, int]) -> str:
    """Write a line for each customer, the largest first."""
    ranked = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return "\n".join(f"{customer:8} {cents / 100:10.2f}" for customer, cents in ranked)
