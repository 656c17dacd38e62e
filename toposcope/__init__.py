"""Toposcope: GPU topology discovery for Kubernetes."""

__version__ = "0.1.0"
