package cli

import (
	"strconv"
	"strings"
)

// ParseSize parses SYMBOL=N, a value of --size. The name is empty if s has another form.
func ParseSize(s string) (name string, n int64) {
	name, num, _ := strings.Cut(s, "=")
	n, err := strconv.ParseInt(num, 10, 64)
	if err != nil {
		return "", 0
	}
	return name, n
}
