"""What attempts leave behind while they run: logs, notes, checkpoints, addresses."""
