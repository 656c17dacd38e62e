"""One cluster: levels, their catalogue, node table, coverage and segments; pure."""
