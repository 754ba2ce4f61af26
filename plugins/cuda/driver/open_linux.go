package driver

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// native is libcuda.
type native struct{ functions [len(symbols)]uintptr }

func (n *native) call(f function, args ...uintptr) result {
	r, _, _ := purego.SyscallN(n.functions[f], args...)
	return result(int32(r))
}

// openLibrary loads libcuda. missing lists the functions that it lacks.
func openLibrary() (l library, missing []string, err error) {
	at, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, nil, fmt.Errorf("libcuda.so.1 cannot be loaded: %w", err)
	}
	n := &native{}
	for i, name := range symbols {
		if n.functions[i], err = purego.Dlsym(at, name); err != nil {
			missing = append(missing, name)
		}
	}
	return n, missing, nil
}
