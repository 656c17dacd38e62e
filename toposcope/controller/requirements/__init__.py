"""What workloads ask of the topology, read from whatever the cluster serves: nothing has to be installed.

    discovery -> one reflector a source -> Reading (one object) -> roll_up() -> resolve() -> required domains

One file for each source says which kind it is and what its objects ask for, as pure functions of their JSON.
"""
