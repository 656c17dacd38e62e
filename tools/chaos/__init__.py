"""Faults on real processes.

`make chaos` breaks a cluster from a printed seed and judges it from outside.

    schedule -> World (etcd, kube-apiserver, proxies, agents, controllers) -> faults
        -> Observer, audit -> violations

The programs under test are child processes. What judges them shares no code with them.
"""
