"""One cluster: levels and their catalogue, the node table, coverage, segments and which levels are in effect; pure."""
