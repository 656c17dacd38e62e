//go:build tools

// Package operator pins the Prometheus operator's API and the program that makes CRDs of it, as the operator's own are made.
package operator

import (
	_ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	_ "sigs.k8s.io/controller-tools/cmd/controller-gen"
)
