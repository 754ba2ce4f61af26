package main

import (
	"cmp"
	"runtime"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/internal/cli"
)

// machineFindings describes the system, the processor and the memory, as far as the system says.
func machineFindings() []finding {
	list := []finding{systemFinding(), processorFinding()}
	if x, ok := memoryFinding(); ok {
		list = append(list, x)
	}
	if x, ok := hugePagesFinding(); ok {
		list = append(list, x)
	}
	return list
}

func systemFinding() finding {
	parts := []string{runtime.GOOS + "/" + runtime.GOARCH}
	if name := systemName(); name != "" {
		parts = append(parts, name)
	}
	return finding{"system", stateOK, strings.Join(parts, ", "), ""}
}

func processorFinding() finding {
	x := finding{"processor", stateOK, cmp.Or(processorName(), runtime.GOARCH) + ", " +
		cli.Count(runtime.NumCPU(), "thread", "threads"), ""}
	if n := runtime.GOMAXPROCS(0); n < runtime.NumCPU() {
		x.State = stateNote
		x.Do = "of these, " + strconv.Itoa(n) + " may be used: a container's quota or GOMAXPROCS limits them"
	}
	return x
}

func memoryFinding() (finding, bool) {
	total, free := memory()
	if total == 0 {
		return finding{}, false
	}
	return finding{"memory", stateOK, cli.Size(total) + ", " + cli.Size(free) + " free", ""}, true
}
