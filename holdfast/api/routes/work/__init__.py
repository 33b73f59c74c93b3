"""Jobs, tasks and attempts: how they stand, and what people do about them."""
