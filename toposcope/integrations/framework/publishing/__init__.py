"""What the publishers of all systems share."""
