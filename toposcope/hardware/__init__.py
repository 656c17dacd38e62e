"""One machine: GPUs, NICs, link matrix, rails and leaves.

Pure facts and derivations, standard library only.
"""
