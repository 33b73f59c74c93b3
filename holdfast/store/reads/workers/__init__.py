"""Workers: what they have, what they have run, and what none of them could."""
