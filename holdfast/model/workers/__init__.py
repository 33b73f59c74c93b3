"""What workers are known by, what they have, and which functions they offer."""
