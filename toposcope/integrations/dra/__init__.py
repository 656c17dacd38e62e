"""Dynamic resource allocation.

ResourceSlices, claims on their devices, and how the scheduler allocates them.
"""
