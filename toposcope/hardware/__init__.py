"""One machine: GPUs, NICs, link matrix, rails and leaves; pure facts and derivations, standard library only."""
