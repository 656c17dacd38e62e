"""The pages of docs/ that say what the code says.

Tables of labels, metrics, levels, flags and fields.
"""
