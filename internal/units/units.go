// Package units formats and parses quantities as people write them.
package units

import (
	"fmt"
	"strconv"
	"strings"
)

// Bytes formats a number of bytes in units of 1000.
func Bytes(n int64) string {
	f, units := float64(n), []string{"B", "kB", "MB", "GB", "TB"}
	for len(units) > 1 && f >= 999.5 {
		f, units = f/1000, units[1:]
	}
	if units[0] == "B" || f >= 99.95 {
		return fmt.Sprintf("%.0f %s", f, units[0])
	}
	return fmt.Sprintf("%.1f %s", f, units[0])
}

// ParseBytes parses sizes such as 4096, 300M or 1.5G: bytes in units of 1000, or of 1024 with an i (300Mi). ok is false
// if s is not a size or is 2^62 or more.
func ParseBytes(s string) (n int64, ok bool) {
	num := strings.TrimRight(strings.TrimSpace(s), "bB")
	unit, base := 1.0, 1000.0
	if n, ok := strings.CutSuffix(num, "i"); ok {
		num, base = n, 1024
	}
	for i, u := range []string{"k", "m", "g", "t"} {
		if n, ok := strings.CutSuffix(strings.ToLower(num), u); ok {
			num = n
			for range i + 1 {
				unit *= base
			}
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if err != nil || !(v*unit >= 1 && v*unit < 1<<62) {
		return 0, false
	}
	return int64(v * unit), true
}
