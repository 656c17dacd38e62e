def size_rows() -> list[str]:
    """Placeholder until written."""
    return []
