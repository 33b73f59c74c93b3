"""Run a gang of four that loses a member on the way, and goes on from its checkpoint.

holdfast up &
holdfast worker --placed --import tasks &      # in this folder; or several, on several hosts
python main.py
"""

from tasks import train

import holdfast as hf


def main() -> None:
    """Submit the gang, wait for its sums, and show what rank 0 has to tell of each round."""
    with hf.Client():
        job = train.submit()
        print(job.results(timeout=300))
        for attempt in (0, 1):
            print(b"".join(job.logs(0, attempt=attempt)).decode(), end="")


if __name__ == "__main__":
    main()
