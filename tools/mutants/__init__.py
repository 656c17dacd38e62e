"""A fixed sample of mutmut's mutants, to compare the tests of two commits.

`make mutants` changes all of the code, which takes long. This draws a sample by a seed, runs mutmut
on it once with each commit's tests, and says what only the earlier tests noticed:

    python -m tools.mutants draw --seed 1 --count 1000 > sample.txt
    python -m tools.mutants run sample.txt --tests ../before/tests --results before.json
    python -m tools.mutants run sample.txt --results after.json
    python -m tools.mutants lost before.json after.json

Both runs change the code of this tree. mutmut runs once per room with that room's tests alone; of
these it takes those that call the changed function, and ends at the first that fails.
"""
