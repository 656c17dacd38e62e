"""Bad input, made up without end: `make fuzz`.

Nothing may crash or hang, and every refusal is a sentence.

`subject` says what a subject is; `subjects/` has them; `run` draws cases and makes the ones that
fail small, each subject in a process of its own; `guided` lets coverage choose the cases; `sizes`
are inputs that are too large.
"""
