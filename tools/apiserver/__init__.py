"""A real kube-apiserver on etcd, for tests, benchmarks and chaos, and a client for its administrator."""
