"""Grove."""
