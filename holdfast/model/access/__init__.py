"""Who calls, what he may do, and how he proves who he is."""
