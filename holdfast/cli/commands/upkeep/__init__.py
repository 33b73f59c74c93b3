"""What looks after the system as such, and after those who use it."""
