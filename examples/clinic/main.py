"""Names and diagnoses that the server and its database never see: only whoever has the keys.

pip install cryptography
holdfast up --no-worker &
export CLINIC_KEYS=$(python new_key.py)      # in this folder
holdfast worker --queue clinic --import tasks --codec fernet_codec:codec &
python main.py
"""

import json

from fernet_codec import codec
from tasks import diagnose, write_letter

import holdfast as hf


def main() -> None:
    """Hand on a diagnosis, and look at it as the server does."""
    with hf.Client(codec=codec):
        diagnosis = diagnose.submit("Ada", symptoms=["sneezing"])
        letter = write_letter.submit(diagnosis)
        print(letter.result(timeout=60))
    with hf.Client(codec=None) as server:
        stored = json.loads(bytes(server.tasks.result(f"{letter.id}.0").result))
        print("The server has", sorted(stored), "by", stored["$holdfast_codec"])


if __name__ == "__main__":
    main()
