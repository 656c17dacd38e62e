"""Dynamic resource allocation.

ResourceSlices, claims on their devices, and what kube-scheduler makes of them.
"""
