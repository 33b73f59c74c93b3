"""Who runs tasks and who serves them, and which functions there are."""
