"""What holds tasks back: limits, shares, queues, and what owners have."""
