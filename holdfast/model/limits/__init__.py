"""How much there may be at once, and who gets how much of it."""
