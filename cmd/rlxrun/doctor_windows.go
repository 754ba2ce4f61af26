package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"

	"github.com/rlx-go/rlx/internal/sysmem"
)

// unconfined says why nothing confines backends.
const unconfined = "there is no sandbox on Windows: run only backends that you trust"

func systemName() string {
	v := windows.RtlGetVersion()
	return fmt.Sprintf("Windows %d.%d, build %d", v.MajorVersion, v.MinorVersion, v.BuildNumber)
}

func processorName() string { return os.Getenv("PROCESSOR_IDENTIFIER") }

// memory returns the machine's memory and the free part of it, in bytes; 0 if unknown.
func memory() (total, free int64) {
	total, free, _ = sysmem.Read()
	return total, free
}

func hugePagesFinding() (finding, bool) { return finding{}, false }

// driverState describes the GPUs that the system knows, and what to do.
func driverState() (found, do string) {
	return "no backend has a GPU", "the cpu backend runs all models; the others need Linux or a Mac with Apple silicon"
}
