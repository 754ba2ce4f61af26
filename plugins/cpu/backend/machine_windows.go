package backend

import (
	"os"
	"runtime"
	"strings"

	system "golang.org/x/sys/windows/registry"

	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/sysmem"
)

func allocate(n int64) ([]byte, func(), error) { return tensor.AlignedBytes(int(n)), nil, nil }

func physicalMemory() int64 {
	total, _, _ := sysmem.Read()
	return total
}

func processorName() string {
	k, err := system.OpenKey(system.LOCAL_MACHINE, `HARDWARE\DESCRIPTION\System\CentralProcessor\0`,
		system.QUERY_VALUE)
	if err == nil {
		defer k.Close()
		if name, _, err := k.GetStringValue("ProcessorNameString"); err == nil && strings.TrimSpace(name) != "" {
			return strings.TrimSpace(name)
		}
	}
	if name := os.Getenv("PROCESSOR_IDENTIFIER"); name != "" {
		return name
	}
	return runtime.GOARCH
}
