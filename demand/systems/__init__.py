"""One file per scheduler or operator: which documents are its own, what they ask for, and what it would say to them."""
