package cli

import "github.com/rlx-go/rlx/internal/units"

// Size formats a number of bytes for people, in units of 1000.
func Size(n int64) string { return units.Bytes(n) }
