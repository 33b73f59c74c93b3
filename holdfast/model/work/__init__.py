"""Tasks and attempts: their names, their states, how they end."""
