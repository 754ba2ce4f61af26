package grammar

import (
	"fmt"
	"slices"
)

// array returns the arrays that fit.
func (s *schemas) array(o *object, at string) (*expr, error) {
	least, err := s.count(o, "minItems", at, 0)
	if err != nil {
		return nil, err
	}
	most, err := s.count(o, "maxItems", at, -1)
	if err != nil {
		return nil, err
	}
	if most >= 0 && most < least {
		return nil, bad(at+"/maxItems", "is %d and minItems %d", most, least)
	}
	first, others, otherAt, err := s.items(o, at)
	if err != nil {
		return nil, err
	}
	var fixed []*expr
	for i, v := range first {
		if most >= 0 && i >= most {
			break
		}
		n, err := s.rule(v, fmt.Sprintf("%s/prefixItems/%d", at, i))
		if err != nil {
			return nil, err
		}
		fixed = append(fixed, ref(n))
	}
	open := len(first) == 0 || others != nil
	if others == nil && (open || least > len(first)) {
		others, open = true, true
	}
	var other *expr
	if open && (most < 0 || most > len(fixed)) {
		n, err := s.rule(others, otherAt)
		if err != nil {
			return nil, err
		}
		other = ref(n)
	}
	return s.list(fixed, other, least, most)
}

// items returns the schemas of the first items, and of those after them with its place.
func (s *schemas) items(o *object, at string) (first []any, others any, otherAt string, err error) {
	others, otherAt = o.values["items"], at+"/items"
	v, given := o.get("prefixItems")
	if list, ok := others.([]any); ok && !given { // as in earlier drafts
		v, given = list, true
		others, otherAt = o.values["additionalItems"], at+"/additionalItems"
	} else if _, ok := o.get("additionalItems"); ok {
		return nil, nil, "", bad(at+"/additionalItems", "has a meaning only if items is a list")
	}
	if !given {
		return nil, others, otherAt, nil
	}
	first, _ = v.([]any)
	return first, others, otherAt, nil
}

// list returns arrays of least to most items: the fixed ones in order, and then any number of others, if not nil.
func (s *schemas) list(fixed []*expr, other *expr, least, most int) (*expr, error) {
	space := s.space()
	comma := seq(literal(","), space)
	tail := literal("") // what follows the items so far
	if other != nil {
		from, to := max(0, least-len(fixed)), -1
		if most >= 0 {
			to = most - len(fixed)
		}
		if len(fixed) == 0 {
			body := seq(other, repeat(seq(comma, other), max(0, from-1), max(to-1, -1)))
			if to == 0 {
				body = literal("")
			} else if from == 0 {
				body = optional(seq(body, space))
			} else {
				body = seq(body, space)
			}
			return seq(literal("["), space, body, literal("]")), nil
		}
		tail = repeat(seq(comma, other), from, to)
	} else if least > len(fixed) {
		return alt(), nil // false: no such array
	}
	for i := len(fixed) - 1; i >= 0; i-- {
		x := seq(fixed[i], tail)
		if i > 0 {
			x = seq(comma, x)
		}
		if i >= least {
			x = optional(x)
		}
		tail = x
	}
	return seq(literal("["), space, tail, space, literal("]")), nil
}

// A member is a property of an object.
type member struct {
	key      string
	value    *expr
	required bool
}

// members returns the objects that fit.
func (s *schemas) members(o *object, at string) (*expr, error) {
	var all []member
	v, given := o.get("properties")
	properties, _ := v.(*object)
	required, err := s.required(o, at)
	if err != nil {
		return nil, err
	}
	more, moreGiven := o.get("additionalProperties")
	if properties == nil {
		properties = &object{}
	}
	for _, k := range properties.keys {
		n, err := s.rule(properties.values[k], at+"/properties/"+escaped(k))
		if err != nil {
			return nil, err
		}
		all = append(all, member{k, ref(n), slices.Contains(required, k)})
	}
	for _, k := range required { // a required property without a description is like an additional one
		if _, ok := properties.get(k); ok {
			continue
		}
		var v any = true
		if moreGiven {
			v = more
		}
		n, err := s.rule(v, at+"/additionalProperties")
		if err != nil {
			return nil, err
		}
		all = append(all, member{k, ref(n), true})
	}
	var other *expr
	if !moreGiven && len(all) == 0 && !given {
		more, moreGiven = true, true
	}
	if moreGiven && more != false {
		n, err := s.rule(more, at+"/additionalProperties")
		if err != nil {
			return nil, err
		}
		other = seq(s.otherKey(all), colon(), ref(n))
	}
	return s.pairs(all, other)
}

func (s *schemas) required(o *object, at string) (out []string, err error) {
	v, given := o.get("required")
	list, ok := v.([]any)
	if given && !ok {
		return nil, bad(at+"/required", "is %s; want a list of texts", short(v))
	}
	for _, x := range list {
		k, ok := x.(string)
		if !ok {
			return nil, bad(at+"/required", "is %s; want a list of texts", short(v))
		}
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out, nil
}

// pairs returns objects with members in their order, and then any number of others, if other is not nil.
func (s *schemas) pairs(all []member, other *expr) (*expr, error) {
	space := s.space()
	comma := seq(literal(","), space)
	// tail[0] follows members, and tail[1] begins the object
	tail := [2]*expr{literal(""), literal("")}
	if other != nil {
		tail[0] = repeat(seq(comma, other), 0, -1)
		tail[1] = optional(seq(other, tail[0]))
	}
	for i := len(all) - 1; i >= 0; i-- {
		m, rest := all[i], [2]*expr{s.rest(tail[0]), s.rest(tail[1])}
		pair := seq(literal(encoded(m.key)), colon(), m.value, rest[0])
		tail = [2]*expr{seq(comma, pair), pair}
		if !m.required {
			tail[0], tail[1] = alt(tail[0], rest[0]), alt(tail[1], rest[1])
		}
	}
	return seq(literal("{"), space, tail[1], space, literal("}")), nil
}

// colon returns the text between a key and its value.
func colon() *expr { return seq(literal(":"), optional(literal(" "))) }

// rest returns a reference to a rule of its own, because x is used more than once.
func (s *schemas) rest(x *expr) *expr {
	if x.kind == isLiteral || x.kind == isRef {
		return x
	}
	y, _ := s.once(fmt.Sprintf("members %d", len(s.g.rules)), "members", func() (*expr, error) { return x, nil })
	return y
}

// otherKey returns the keys that are not in all. They have no escapes, so that no key is written in two ways.
func (s *schemas) otherKey(all []member) *expr {
	plain := class(append([]rune{0, 0x1F, 0x7F, 0x7F}, runes('"', '\\')...)...)
	plain.ranges = inverted(plain.ranges)
	keys := make([]string, 0, len(all))
	for _, m := range all {
		keys = append(keys, m.key)
	}
	slices.Sort(keys)
	return seq(literal(`"`), s.unlike(slices.Compact(keys), plain), literal(`"`))
}

// unlike returns texts of characters that differ from all of the sorted texts.
func (s *schemas) unlike(texts []string, char *expr) *expr {
	if len(texts) == 0 {
		return repeat(char, 0, -1)
	}
	ends := texts[0] == ""
	if ends {
		texts = texts[1:]
	}
	var list []*expr
	if !ends {
		list = append(list, literal(""))
	}
	var begins []rune
	for len(texts) > 0 {
		r := []rune(texts[0])[0]
		first, n := string(r), 0
		var rests []string
		for n < len(texts) && []rune(texts[n])[0] == r {
			rests = append(rests, texts[n][len(first):])
			n++
		}
		list = append(list, seq(within(char, r, r), s.unlike(rests, char)))
		begins = append(begins, r, r)
		texts = texts[n:]
	}
	other := class(begins...)
	other.ranges = inverted(other.ranges)
	for i := 0; i < len(other.ranges); i += 2 {
		list = append(list, seq(within(char, other.ranges[i], other.ranges[i+1]), repeat(char, 0, -1)))
	}
	return alt(list...)
}

// within returns the characters of a class from lo to hi.
func within(x *expr, lo, hi rune) *expr {
	var pairs []rune
	for i := 0; i < len(x.ranges); i += 2 {
		pairs = append(pairs, max(lo, x.ranges[i]), min(hi, x.ranges[i+1]))
	}
	return class(pairs...)
}

// runes returns each character as a range.
func runes(list ...rune) (out []rune) {
	for _, r := range list {
		out = append(out, r, r)
	}
	return out
}
