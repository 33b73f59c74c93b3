"""How work comes in: jobs, what they run in, schedules, and policies of types."""
