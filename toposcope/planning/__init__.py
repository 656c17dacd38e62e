"""What an admin decides with: scores of gangs, slots, what a change does, what to drain first."""
