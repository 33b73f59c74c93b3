"""A first task; put your own modules beside it, and name them in HOLDFAST_IMPORTS."""

import holdfast as hf


@hf.task(queue="default", retries=3)
def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"
