"""An ETL graph over 200 orders: one line is broken and stops it; mended, the graph goes on.

holdfast up &
holdfast worker --queue etl --import tasks &      # in this folder
python main.py
"""

import json

from tasks import read_order, report, sum_up

import holdfast as hf

CUSTOMERS = ("anna", "ben", "carla", "david")
LINES = [f"{CUSTOMERS[n % 4]},{n}.50" for n in range(200)]
LINES[77] = "ben;77.50"  # somebody has typed a semicolon


def mend(line: str) -> str:
    """Do what a person would do who looks at a line that cannot be read."""
    return line.replace(";", ",")


def main() -> None:
    """Submit the graph, see it break, correct what broke it, and let it go on."""
    with hf.Client() as client:
        with hf.graph():  # all of it is submitted, or nothing
            orders = read_order.map(LINES)
            last = report.submit(sum_up.submit(orders))
        status = last.wait(timeout=120)
        print(f"job {last.id} ended {status.state}: {status.error}")

        # 199 lines were read. The one that was not is a dead letter, with its input and the reason.
        corrected = {}
        for letter in client.dead_letters.list(job_id=orders.id).dead_letters:
            problem = (letter.last_error or "").partition("\n")[0]  # a traceback comes behind it
            print(f"task {letter.task_id}: {problem}")
            corrected[letter.task_id] = mend(json.loads(bytes(letter.input)))

        # One line is read again; the sums are made of all 200, in order, and the report of these.
        resumed = client.jobs.resume(last.id, inputs=corrected)
        for job in resumed.jobs:
            print(f"job {job.job_id} runs {job.num_tasks} task of job {job.replay_of} again")
        print(client.job(resumed.jobs[-1].job_id).result(timeout=120))


if __name__ == "__main__":
    main()
