"""What a job has to do with others: it waits for them, continues them or undoes them."""
