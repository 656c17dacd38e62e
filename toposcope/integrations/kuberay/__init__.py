"""KubeRay's clusters, whose pods other systems place."""
