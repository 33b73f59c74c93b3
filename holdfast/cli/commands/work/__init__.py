"""What follows jobs and tasks, and what steps in."""
