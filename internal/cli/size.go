package cli

import "github.com/rlx-go/rlx/internal/units"

// Size prints bytes for people, in units of 1000.
func Size(n int64) string { return units.Bytes(n) }
