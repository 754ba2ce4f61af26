package cli

import (
	"fmt"
	"math"
	"strconv"

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

// Digits formats a number with four digits, or with all before the point if there are more:
// 0.008123, 26.20, 1234, 56789.
func Digits(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	decimals := 3 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', max(0, decimals), 64)
}
