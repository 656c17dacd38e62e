"""Dynamic resource allocation.

ResourceSlices, claims on their devices, and what the scheduler makes of them.
"""
