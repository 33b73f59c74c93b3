"""Who calls, by which session or token, and what people have done."""
