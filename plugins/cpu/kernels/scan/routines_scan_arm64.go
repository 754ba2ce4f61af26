package scan

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { scanTable.Add(isa.NEON, func() *scanRoutines { return &scanRoutines{} }) }
