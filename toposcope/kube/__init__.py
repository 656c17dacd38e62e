"""Thin typed access to a Kubernetes API server: credentials, requests, streams, apply, Events.

The only room that knows the `kubernetes` package, and even here it is loaded only for kubeconfig
users whose credentials come from a plugin: importing it costs 26-48 MB of memory and half a second
of CPU, as much as the whole agent. Inside a cluster nothing but the standard library is loaded, and
msgspec for lists and watches.
"""
