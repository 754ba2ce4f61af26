package scan

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() { recTable.Add(isa.NEON, stripsInGo) }
