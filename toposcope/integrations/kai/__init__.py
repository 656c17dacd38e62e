"""KAI Scheduler."""
