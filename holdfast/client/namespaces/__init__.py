"""What a client asks of a server beyond its own jobs, by subject: `client.jobs` and others."""
