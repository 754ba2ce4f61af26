package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// A regex is a regular expression in the syntax of Oniguruma, which the Hugging Face library uses.
type regex struct{ re *regexp2.Regexp }

const (
	maxPattern    = 4096
	maxRepeat     = 1000
	maxGroupDepth = 50
	matchTimeout  = 5 * time.Second // a slower match indicates catastrophic backtracking
)

// compileRegex accepts constructs that mean the same in Oniguruma and regexp2, or can be rewritten. Errors name the
// construct.
func compileRegex(expr string) (*regex, error) {
	if len(expr) > maxPattern {
		return nil, fmt.Errorf("has %d bytes; at most %d are allowed", len(expr), maxPattern)
	}
	x := &translator{in: expr}
	for x.at < len(x.in) {
		if err := x.construct(); err != nil {
			return nil, fmt.Errorf("%w at byte %d", err, x.at)
		}
	}
	re, err := regexp2.Compile(x.out.String(), regexp2.Multiline)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = matchTimeout
	return &regex{re}, nil
}

// A translator copies a regular expression from in to out, one construct at a time.
type translator struct {
	in    string
	at    int
	out   strings.Builder
	folds []bool // for each open group, whether it ignores case
}

func (x *translator) copy(n int) error {
	x.out.WriteString(x.in[x.at : x.at+n])
	x.at += n
	return nil
}

func (x *translator) has(prefix string) bool { return strings.HasPrefix(x.in[x.at:], prefix) }

func (x *translator) construct() error {
	switch x.in[x.at] {
	case '\\':
		return x.escape(false)
	case '[':
		return x.class()
	case '(':
		if len(x.folds) == maxGroupDepth {
			return fmt.Errorf("has groups within groups, deeper than %d levels", maxGroupDepth)
		}
		x.folds = append(x.folds, !x.has("(?-i:") && (x.has("(?i:") || x.fold()))
		return x.group()
	case ')':
		x.folds = x.folds[:max(0, len(x.folds)-1)]
		return x.copy(1)
	case '{':
		return x.interval()
	case '^': // Oniguruma's ^ matches at each line, but not after the last line end
		x.out.WriteString(`(?:\A|^(?!\z))`)
		x.at++
		return nil
	}
	return x.copy(1)
}

func (x *translator) fold() bool { return len(x.folds) > 0 && x.folds[len(x.folds)-1] }

func (x *translator) group() error {
	if !x.has("(?") {
		x.out.WriteString("(?:") // nothing refers to groups by number
		x.at++
		return nil
	}
	for _, open := range []string{"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"} {
		if x.has(open) {
			return x.copy(len(open))
		}
	}
	return fmt.Errorf("has a group %.4q that is not supported", x.in[x.at:])
}

// interval reads {n}, {n,} or {n,m}. Any other brace stands for itself.
func (x *translator) interval() error {
	end := strings.IndexByte(x.in[x.at:], '}')
	if end < 0 {
		return fmt.Errorf("has { without }")
	}
	low, high, comma := strings.Cut(x.in[x.at+1:x.at+end], ",")
	for i, s := range []string{low, high} {
		if n, err := strconv.ParseUint(s, 10, 16); i == 0 && err != nil || i == 1 && s != "" && err != nil ||
			n > maxRepeat {
			return fmt.Errorf("has an interval %.20q; allowed are {n}, {n,} and {n,m} up to %d", x.in[x.at:x.at+end+1],
				maxRepeat)
		}
	}
	after := x.in[x.at+end+1:]
	if strings.HasPrefix(after, "+") || strings.HasPrefix(after, "?") && !comma {
		return fmt.Errorf("has %.20q, which is not supported", x.in[x.at:x.at+end+2])
	}
	return x.copy(end + 1)
}

// wordClass is \w of Oniguruma. It includes alphabetic characters that are not letters, and the digits and fractions of
// Latin-1.
const wordClass = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}` + "²³¹¼½¾Ⓐ-ⓩ🄰-🅉🅐-🅩🅰-🆉"

// escape copies a backslash and its operand.
func (x *translator) escape(inClass bool) error {
	if x.at+1 == len(x.in) {
		return fmt.Errorf("ends with a backslash")
	}
	switch c := x.in[x.at+1]; {
	case strings.IndexByte("sSdDrntfv", c) >= 0, c < utf8.RuneSelf && !isAlphanumeric(c):
		return x.copy(2)
	case c == 'A' || c == 'z':
		if !inClass {
			return x.copy(2)
		}
	case c == 'w' && inClass:
		x.out.WriteString(wordClass)
		x.at += 2
		return nil
	case (c == 'w' || c == 'W') && !inClass:
		x.out.WriteString(map[byte]string{'w': "[", 'W': "[^"}[c] + wordClass + "]")
		x.at += 2
		return nil
	case c == 'p' || c == 'P':
		return x.property()
	case c == 'x' || c == 'u':
		return x.codePoint()
	}
	return fmt.Errorf("has the escape %q, which is not supported", x.in[x.at:x.at+2])
}

func isAlphanumeric(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// property reads \p{NAME} or \P{NAME} with a general category or a script.
func (x *translator) property() error {
	end := strings.IndexByte(x.in[x.at:], '}')
	if !strings.HasPrefix(x.in[x.at+2:], "{") || end < 0 {
		return fmt.Errorf(`has a property without braces; write \p{L}`)
	}
	name := x.in[x.at+3 : x.at+end]
	if unicode.Categories[name] == nil && unicode.Scripts[name] == nil {
		return fmt.Errorf("has the property %.20q; known are general categories (L, Lu, N) and scripts (Han, Latin)",
			name)
	}
	if x.fold() {
		return fmt.Errorf("has a property where case is ignored")
	}
	return x.copy(end + 1)
}

// codePoint reads \xHH, \x{H...} or \uHHHH.
func (x *translator) codePoint() error {
	digits, n := x.in[x.at+2:], 2
	if x.in[x.at+1] == 'u' {
		n = 4
	}
	skip := 2 + n
	if strings.HasPrefix(digits, "{") && n == 2 {
		end := strings.IndexByte(digits, '}')
		if end < 0 {
			return fmt.Errorf("has { without }")
		}
		digits, n, skip = digits[1:end], end-1, end+3
	}
	if len(digits) < n {
		return fmt.Errorf("ends in the middle of a code point")
	}
	v, err := strconv.ParseUint(digits[:n], 16, 32)
	if err != nil || !utf8.ValidRune(rune(v)) || n == 2 && skip == 4 && v > 0x7f {
		return fmt.Errorf("has the code point %.12q; allowed are hexadecimal digits of a character", digits[:n])
	}
	x.out.WriteString(regexp2.Escape(string(rune(v))))
	if v == '-' || v == ']' || v == '^' { // Escape does not escape characters that are special only in classes
		return fmt.Errorf("has %q as a code point; write it with a backslash", rune(v))
	}
	x.at += skip
	return nil
}

// class reads [...]. It refuses nested classes and intersections, which regexp2 would read differently.
func (x *translator) class() error {
	x.copy(1)
	if x.has("^") {
		x.copy(1)
	}
	for first := true; x.at < len(x.in); first = false {
		switch c := x.in[x.at]; {
		case c == ']' && first:
			return fmt.Errorf("has an empty class")
		case c == ']':
			return x.copy(1)
		case c == '[' || x.has("&&"):
			return fmt.Errorf("has a class within a class or an intersection, which is not supported")
		case c == '\\':
			if err := x.escape(true); err != nil {
				return err
			}
		default:
			x.copy(1)
		}
	}
	return fmt.Errorf("has [ without ]")
}

func (r *regex) spans(text string, l *limit, each func(start, end int, match bool) error) error {
	var failed error
	done, byteAt, runeAt, last := 0, 0, 0, -1
	advance := func(runes int) int {
		for ; runeAt < runes; runeAt++ {
			_, n := utf8.DecodeRuneInString(text[byteAt:])
			byteAt += n
		}
		return byteAt
	}
	count := 0
	err := r.re.FindRunesMatches([]rune(text), -1, func(m regexp2.MatchView) bool {
		at, n, _ := m.GroupRange(0)
		if n == 0 && at == last {
			return true // Oniguruma does not match the empty string right after a match
		}
		last = at + n
		start := advance(at)
		end := advance(at + n)
		if done < start {
			failed = each(done, start, false)
		}
		if failed == nil {
			failed = each(start, end, true)
		}
		done = end
		if count++; count&1023 == 0 && failed == nil && time.Now().After(l.until) {
			failed = errSlow
		}
		return failed == nil
	})
	if failed == nil {
		failed = err
	}
	if failed == nil && done < len(text) {
		return each(done, len(text), false)
	}
	if _, typed := diag.CodeOf(failed); failed != nil && !typed {
		return diag.New(
			code.TokenizerText, "", "a regular expression of the tokenizer cannot be applied to the text: %w", failed)
	}
	return failed
}

var errSlow = errors.New("it takes too long")
