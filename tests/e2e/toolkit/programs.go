//go:build tools

// Package e2e pins the container toolkit that the end-to-end test puts before its NVML library.
package e2e

import (
	_ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook"
	_ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-container-runtime"
)
