"""Kubeflow's jobs, whose pods other systems place."""
