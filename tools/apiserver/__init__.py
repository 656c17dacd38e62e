"""A real kube-apiserver on etcd; for tests, benchmarks, chaos; its administrator's client."""
