"""The Helm chart, woven from what kustomize renders: there is nothing in it that could differ from the base."""
