"""What the integrations share.

Documents, pods, constraints and the levels that workloads ask for.
"""
