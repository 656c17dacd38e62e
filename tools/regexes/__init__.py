"""Finds regular expressions with two ways to match one text.

Backtracking then takes exponential or quadratic time.

`automaton.py` turns a pattern into the automaton of its positions, `ambiguity.py` judges it,
`places.py` finds every pattern of the product in its source, and `__main__.py` is what `make lint`
runs.
"""
