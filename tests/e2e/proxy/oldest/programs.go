//go:build tools

// Package proxy pins the kube-proxy that leads the end-to-end test's pods to Services.
package proxy

import _ "k8s.io/kubernetes/cmd/kube-proxy"
