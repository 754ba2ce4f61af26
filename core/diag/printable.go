package diag

import (
	"strings"
	"unicode"
)

// Printable makes text from a file, a backend or a command line fit to be printed on one line. Characters that could
// move the cursor, colour the screen or hide other text (control characters, bidirectional overrides) become U+FFFD, as
// do bytes that are not UTF-8. A line break or a tab becomes a space.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return PrintableRune(r)
	}, s)
}

// PrintableRune is r, or U+FFFD where r must not reach a terminal.
func PrintableRune(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}
