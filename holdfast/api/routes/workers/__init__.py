"""What workers call, and the attempts that they run; and how people see them."""
