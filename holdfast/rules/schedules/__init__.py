"""When schedules fire: their instants, and what is decided when one has come."""
