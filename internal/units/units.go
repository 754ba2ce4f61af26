// Package units prints quantities for people.
package units

import "fmt"

// Bytes prints a number of bytes in units of 1000.
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
