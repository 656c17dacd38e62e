"""The controller: turns the labels of all nodes into ClusterTopologies that are right, published and watched.

    watch -> NodeIndex -> infer_levels() -> assess() -> desired resources + conditions -> diff -> apply

Everything up to "desired" is pure; `toposcope.controller.reconcile` does the reading and writing.
"""
