"""What the integrations share: documents, pods, constraints and the levels that workloads ask for."""
