//go:build !linux && !windows

package main

// unconfined says why nothing confines backends.
const unconfined = "there is no sandbox on this system: run only backends that you trust"

func systemName() string { return "" }

func processorName() string { return "" }

// memory is unknown here.
func memory() (total, free int64) { return 0, 0 }

func hugePagesFinding() (finding, bool) { return finding{}, false }

// driverState describes the GPUs that the system knows, and what to do.
func driverState() (found, do string) {
	return "no backend has a GPU", "build or install the wgpu backend, or metal on a Mac with Apple silicon"
}
