"""The work itself: jobs, their tasks in line, and the attempts at them."""
