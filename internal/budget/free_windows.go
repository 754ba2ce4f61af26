package budget

import "github.com/rlx-go/rlx/internal/sysmem"

// freeMemory returns the memory that can still be allocated.
func freeMemory() (bytes int64, ok bool) {
	_, free, ok := sysmem.Read()
	return free, ok
}
