"""Resources that schedulers read, one file for each. None is ever taken over from somebody else."""
