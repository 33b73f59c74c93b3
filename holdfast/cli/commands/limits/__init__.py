"""How much may run at once, how queues are shared, and which are paused."""
