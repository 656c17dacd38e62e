"""What an admin decides with: how well gangs are placed, what still fits, what a change does, what to drain first."""
