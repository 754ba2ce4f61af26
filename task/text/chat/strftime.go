package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// layouts holds the conversions of strftime, as layouts of package time.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'j': "002", 'm': "01", 'y': "06",
	'Y': "2006",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'z': "-0700", 'Z': "MST",
	'D': "01/02/06", 'F': "2006-01-02", 'R': "15:04", 'T': "15:04:05",
}

// strftime formats a time like the C function of this name. In the format, %-d stands for %d without leading zeros.
func strftime(format string, t time.Time) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		if i++; i == len(format) {
			return "", errors.New("strftime_now: the format ends with %")
		}
		bare := format[i] == '-' // without a leading zero
		if bare && i+1 < len(format) {
			i++
		}
		layout, ok := layouts[format[i]]
		switch {
		case format[i] == '%' && !bare:
			b.WriteByte('%')
		case !ok:
			return "", fmt.Errorf("strftime_now: %%%c is not supported", format[i])
		case bare:
			s := strings.TrimLeft(t.Format(layout), "0")
			if s == "" {
				s = "0"
			}
			b.WriteString(s)
		default:
			b.WriteString(t.Format(layout))
		}
	}
	return b.String(), nil
}
