"""The tasks of a demo that stays: the everyday work of a small shop, with its everyday trouble."""

import asyncio
import random
import time

import holdfast as hf

QUEUES = ("ingest", "images", "mail", "training")
DATASET = "orders"


# What a process of its own prints is kept with the attempt.
@hf.task(
    queue="ingest",
    owner="analytics",
    retries=2,
    backoff=hf.Backoff(base=0.5),
    outputs=[hf.Output(DATASET)],
    isolation="process",
)
def ingest_orders(day: str, *, ctx: hf.Context) -> dict[str, int]:
    """Write a partition of a dataset; the source is not always there."""
    print(f"INFO reading orders of {day}, attempt {ctx.attempt}", flush=True)
    time.sleep(random.uniform(0.2, 1.0))
    if random.random() < 0.15:
        print("ERROR the source did not answer", flush=True)
        raise hf.DependencyUnavailable(
            f"orders-db-{random.randint(1, 3)} did not answer within {random.randint(400, 900)} ms"
        )
    rows = random.randint(8_000, 12_000)
    version = ctx.output.version()
    uri = f"s3://lake/orders/v{version}/{day}.parquet"
    ctx.output(day, uri, size_bytes=rows * 180, metadata={"rows": rows})
    print(f"INFO wrote {rows} rows to {uri}", flush=True)
    return {"rows": rows}


@hf.task(queue="images", owner="web", retries=1, backoff=hf.Backoff(base=0.3))
async def resize_image(name: str) -> str:
    """Do something short, many times."""
    await asyncio.sleep(random.uniform(0.05, 0.4))
    return name.replace(".jpg", "-640.webp")


@hf.task(queue="mail", owner="shop", retries=2, backoff=hf.Backoff(base=0.5))
async def send_receipt(address: str, *, ctx: hf.Context) -> str:
    """Refuse what is no address, and fail now and then for reasons of others."""
    await asyncio.sleep(random.uniform(0.1, 0.5))
    if "@" not in address:
        raise hf.ValidationError(f"{address!r} is not an address")
    if random.random() < 0.1:
        raise hf.TransientError(f"smtp answered 451 to message {random.randint(10_000, 99_999)}")
    return f"sent by attempt {ctx.attempt}"


@hf.task(
    queue="training", owner="search", retries=2, backoff=hf.Backoff(base=0.5), isolation="process"
)
def train_ranker(epochs: int, *, ctx: hf.Context) -> float:
    """Take its time, and say how far it is."""
    loss = 2.0
    for epoch in range(epochs):
        if ctx.cancelled:
            raise hf.PermanentError(f"stopped in epoch {epoch}, as asked")
        loss = 0.4 + (loss - 0.4) * random.uniform(0.98, 1.01)
        level = "WARN" if epoch % 17 == 16 else "INFO"
        print(f"{level} epoch {epoch}: loss {loss:.4f}, lr {0.001 * 0.998**epoch:.6f}", flush=True)
        ctx.progress((epoch + 1) / epochs, f"epoch {epoch + 1} of {epochs}, loss {loss:.3f}")
        time.sleep(0.5)
    return round(loss, 4)


@hf.task(queue="ingest", owner="analytics")
async def build_report(day: str) -> str:
    """Come after others in a graph."""
    await asyncio.sleep(0.3)
    return f"report of {day}"
