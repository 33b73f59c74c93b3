"""What is done with schedules: set, paused, declared, fired in time or by hand."""
