"""Resources that schedulers read, one file a target. None is ever taken over from somebody else."""
