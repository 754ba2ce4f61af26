package grammar

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
)

type hinter = *diag.Error

func itoa(n int) string { return strconv.Itoa(n) }

// plainChars are the characters that a JSON text may have as they are.
func plainChars() *expr {
	x := class(append([]rune{0, 0x1F, 0x7F, 0x7F}, runes('"', '\\')...)...)
	x.ranges = inverted(x.ranges)
	return x
}

// char returns a character of a JSON text, also as an escape. A surrogate comes only in a pair, which is a character.
func (s *schemas) char() *expr {
	x, _ := s.once("character", "a character", func() (*expr, error) {
		hex := class('0', '9', 'a', 'f', 'A', 'F')
		bmp := alt(seq(class('0', '9', 'a', 'c', 'e', 'f', 'A', 'C', 'E', 'F'), repeat(hex, 3, 3)),
			seq(class('d', 'd', 'D', 'D'), class('0', '7'), repeat(hex, 2, 2)))
		pair := seq(class('d', 'd', 'D', 'D'), class('8', '9', 'a', 'b', 'A', 'B'), repeat(hex, 2, 2), literal(`\u`),
			class('d', 'd', 'D', 'D'), class('c', 'f', 'C', 'F'), repeat(hex, 2, 2))
		return alt(plainChars(), seq(literal(`\`), alt(class(runes([]rune(`"\/bfnrt`)...)...),
			seq(literal("u"), alt(bmp, pair))))), nil
	})
	return x
}

// string returns the JSON texts that fit.
func (s *schemas) string(o *object, at string) (*expr, error) {
	least, err := s.count(o, "minLength", at, 0)
	if err != nil {
		return nil, err
	}
	most, err := s.count(o, "maxLength", at, -1)
	if err != nil {
		return nil, err
	}
	_, limited := o.get("maxLength")
	limited = limited || least > 0
	pattern, hasPattern := o.get("pattern")
	format, hasFormat := o.get("format")
	switch {
	case most >= 0 && most < least:
		return nil, bad(at+"/maxLength", "is %d and minLength %d", most, least)
	case hasPattern && (limited || hasFormat):
		return nil, bad(at+"/pattern", "cannot be combined with minLength, maxLength and format").(hinter).WithHint(
			"write the length into the pattern, as in ^[a-z]{2,5}$")
	case hasFormat && limited:
		return nil, bad(at+"/format", "cannot be combined with minLength and maxLength")
	case hasPattern:
		text, ok := pattern.(string)
		if !ok {
			return nil, bad(at+"/pattern", "is %s; want a text", short(pattern))
		}
		x, err := s.pattern(text, at+"/pattern")
		if err != nil {
			return nil, err
		}
		return seq(literal(`"`), x, literal(`"`)), nil
	case hasFormat:
		name, ok := format.(string)
		make := formats[name]
		if !ok || make == nil {
			return nil, bad(at+"/format", "is %s; supported are %s", short(format), strings.Join(formatNames(), ", "))
		}
		return s.once("format "+name, "the format "+name, func() (*expr, error) {
			return seq(literal(`"`), make(), literal(`"`)), nil
		})
	case limited || most >= 0:
		return seq(literal(`"`), repeat(s.char(), least, most), literal(`"`)), nil
	}
	return s.once("text", "a text", func() (*expr, error) {
		return seq(literal(`"`), repeat(s.char(), 0, -1), literal(`"`)), nil
	})
}

func formatNames() (out []string) {
	for k := range formats {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func digits(n int) *expr { return repeat(class('0', '9'), n, n) }

// formats are those of JSON schema that are supported.
var formats = map[string]func() *expr{
	"date": date,
	"time": timeOfDay,
	"date-time": func() *expr {
		return seq(date(), literal("T"), timeOfDay())
	},
	"uuid": func() *expr {
		hex := func(n int) *expr { return repeat(class('0', '9', 'a', 'f', 'A', 'F'), n, n) }
		d := literal("-")
		return seq(hex(8), d, hex(4), d, hex(4), d, hex(4), d, hex(12))
	},
	"ipv4": func() *expr {
		part := upTo(0, 255)
		return seq(part, literal("."), part, literal("."), part, literal("."), part)
	},
}

// date returns dates as RFC 3339 has them, without days that there are not.
func date() *expr {
	d := func(pairs ...rune) *expr { return class(pairs...) }
	l := literal
	upTo28 := alt(seq(l("0"), d('1', '9')), seq(l("1"), digits(1)), seq(l("2"), d('0', '8')))
	upTo29 := alt(seq(l("0"), d('1', '9')), seq(d('1', '2'), digits(1)))
	upTo30 := alt(upTo29, l("30"))
	upTo31 := alt(upTo30, l("31"))
	byFour := func(zero bool) *expr { // two digits that 4 divides
		x := alt(l("04"), l("08"), seq(d(runes('2', '4', '6', '8')...), d(runes('0', '4', '8')...)),
			seq(d(runes('1', '3', '5', '7', '9')...), d(runes('2', '6')...)))
		if zero {
			return alt(x, l("00"))
		}
		return x
	}
	leap := alt(seq(digits(2), byFour(false)), seq(byFour(true), l("00")))
	long := alt(l("01"), l("03"), l("05"), l("07"), l("08"), l("10"), l("12"))
	short := alt(l("04"), l("06"), l("09"), l("11"))
	dash := l("-")
	return alt(seq(digits(4), dash, alt(seq(long, dash, upTo31), seq(short, dash, upTo30), seq(l("02"), dash, upTo28))),
		seq(leap, l("-02-29")))
}

// timeOfDay returns times as RFC 3339 has them, without leap seconds.
func timeOfDay() *expr {
	colon := literal(":")
	hour := alt(seq(class('0', '1'), digits(1)), seq(literal("2"), class('0', '3')))
	sixty := seq(class('0', '5'), digits(1))
	return seq(hour, colon, sixty, colon, sixty, optional(seq(literal("."), repeat(class('0', '9'), 1, 9))),
		alt(literal("Z"), seq(class(runes('+', '-')...), hour, colon, sixty)))
}

// number returns the JSON numbers.
func (s *schemas) number(o *object, at string) (*expr, error) {
	for _, k := range o.keys {
		if keywords[k] == "number" {
			return nil, bad(at+"/"+k, "limits are supported for the type integer only")
		}
	}
	return s.once("number", "a number", func() (*expr, error) {
		return seq(optional(literal("-")), wholePart(), optional(seq(literal("."), repeat(class('0', '9'), 1, 16))),
			optional(seq(class(runes('e', 'E')...), optional(class(runes('+', '-')...)),
				repeat(class('0', '9'), 1, 2)))), nil
	})
}

// wholePart returns whole numbers of up to 16 digits: a model might never end a longer one.
func wholePart() *expr {
	return alt(literal("0"), seq(class('1', '9'), repeat(class('0', '9'), 0, 15)))
}

// integer returns the whole numbers that fit.
func (s *schemas) integer(o *object, at string) (*expr, error) {
	var least, most *int64
	for _, k := range o.keys {
		if keywords[k] != "number" {
			continue
		}
		r, ok := number(o.values[k])
		if !ok {
			return nil, bad(at+"/"+k, "is %s; want a number from -1e18 to 1e18", short(o.values[k]))
		}
		n := floor(r)
		if k == "minimum" && !r.IsInt() || k == "exclusiveMinimum" {
			n++
		}
		if k == "exclusiveMaximum" && r.IsInt() {
			n--
		}
		if strings.HasSuffix(strings.ToLower(k), "minimum") {
			if least == nil || n > *least {
				least = &n
			}
		} else if most == nil || n < *most {
			most = &n
		}
	}
	if least == nil && most == nil {
		return s.once("integer", "a whole number", func() (*expr, error) {
			return seq(optional(literal("-")), wholePart()), nil
		})
	}
	const room = 1e15
	if least == nil {
		n := min(*most-room, -room)
		least = &n
	}
	if most == nil {
		n := max(*least+room, room)
		most = &n
	}
	return upTo(*least, *most), nil
}

func floor(r *big.Rat) int64 {
	n := new(big.Int).Div(r.Num(), r.Denom()) // rounds down, because the denominator is positive
	return n.Int64()
}

// upTo returns the whole numbers from a to b.
func upTo(a, b int64) *expr {
	var list []*expr
	if a < 0 && a <= b {
		list = append(list, seq(literal("-"), natural(max(1, -b), -a)))
	}
	if b >= 0 {
		list = append(list, natural(max(a, 0), b))
	}
	return alt(list...)
}

// natural returns the numbers from a to b, which are not negative.
func natural(a, b int64) *expr {
	var list []*expr
	for a <= b {
		from := strconv.FormatInt(a, 10)
		to := strings.Repeat("9", len(from)) // the largest number with the same number of digits
		if last := strconv.FormatInt(b, 10); len(last) == len(from) {
			to = last
		}
		list = append(list, sameLength(from, to))
		n, _ := strconv.ParseInt(to, 10, 64)
		a = n + 1
	}
	return alt(list...)
}

// sameLength returns the numbers from a to b, which have the same number of digits.
func sameLength(a, b string) *expr {
	if len(a) == 0 {
		return literal("")
	}
	first := func(lo, hi byte, rest *expr) *expr { return seq(class(rune(lo), rune(hi)), rest) }
	n := len(a) - 1
	if a[0] == b[0] {
		return first(a[0], a[0], sameLength(a[1:], b[1:]))
	}
	lo, hi := a[0], b[0]
	var list []*expr
	if strings.Trim(a[1:], "0") != "" {
		list = append(list, first(lo, lo, sameLength(a[1:], strings.Repeat("9", n))))
		lo++
	}
	if strings.Trim(b[1:], "9") != "" {
		list = append(list, first(hi, hi, sameLength(strings.Repeat("0", n), b[1:])))
		hi--
	}
	if lo <= hi {
		list = append(list, first(lo, hi, digits(n)))
	}
	return alt(list...)
}
