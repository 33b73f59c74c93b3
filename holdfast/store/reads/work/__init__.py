"""Jobs, tasks and attempts: how they stand, and why."""
