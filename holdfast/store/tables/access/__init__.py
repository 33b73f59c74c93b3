"""Who may call, what callers have done, and what they were answered before."""
