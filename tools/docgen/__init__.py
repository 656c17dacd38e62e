"""The pages of docs/ that say what the code says: tables of labels, metrics, levels, flags and fields."""
