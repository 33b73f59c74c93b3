"""What the worker runs; it sees everything in plain text."""

import holdfast as hf


@hf.task(queue="clinic")
def diagnose(name: str, *, symptoms: list[str]) -> str:
    """Find out what somebody has."""
    return f"{name} has a cold" if "sneezing" in symptoms else f"{name} is well"


@hf.task(queue="clinic")
def write_letter(diagnosis: str) -> str:
    """Tell the patient."""
    return f"Dear patient: {diagnosis}."
