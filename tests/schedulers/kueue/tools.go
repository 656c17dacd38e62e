//go:build tools

// Package kueue pins the scheduler that the tests run.
package kueue

import _ "sigs.k8s.io/kueue/cmd/kueue"
