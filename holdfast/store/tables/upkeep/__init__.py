"""What chores work by: what is left to do, what is made ahead, what is counted."""
