"""Kubernetes' own workloads."""
