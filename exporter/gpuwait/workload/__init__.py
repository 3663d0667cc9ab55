"""Which pod, container, Slurm job or service a process belongs to."""
