"""What breaks, when, and how: a plan drawn from a seed, and the hands that carry it out."""
