"""How the system as such does."""
