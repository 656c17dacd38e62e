"""What every program exposes about itself: log lines, Prometheus metrics, health over HTTP."""
