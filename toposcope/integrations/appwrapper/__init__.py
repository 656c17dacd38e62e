"""AppWrapper: objects that a controller creates together."""
