package cli

import (
	"fmt"

	"github.com/rlx-go/rlx/internal/units"
)

// Size formats a number of bytes for people, in units of 1000.
func Size(n int64) string { return units.Bytes(n) }

// Count formats a number of things: Count(n, "token", "tokens") is "1 token" or "2 tokens".
func Count[N ~int | ~int64](n N, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}
