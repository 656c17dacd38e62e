"""What stands between the publishers and the API server: a cache, dry runs, a backoff."""
