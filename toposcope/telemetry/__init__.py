"""What both programs show of themselves: log lines, Prometheus metrics and health over HTTP."""
