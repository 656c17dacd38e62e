"""The same topology in the forms that other systems read: pure functions, one file a format.

Grove, KAI, Kueue, Run:ai, OSMO and Grove's Helm values say which node labels are the levels (`hierarchy` is what they
have in common, and each can be read back); Slurm's files name every node, and NCCL's describes the inside of one.
"""
