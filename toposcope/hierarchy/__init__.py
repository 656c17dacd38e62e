"""One cluster: levels and their catalogue, node table, coverage, segments, effective levels; pure."""
