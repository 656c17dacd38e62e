"""Bad input, made up without end: `make fuzz`. Nothing may crash or hang, and what is refused is refused in words.

`subject` says what a subject is; `subjects/` has one a file; `engine` draws cases and makes the ones that fail small;
`guided` lets coverage choose them; `child` keeps each subject in a process of its own; `sizes` are inputs that are
bad by being large.
"""
