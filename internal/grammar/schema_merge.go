package grammar

import (
	"math/big"
	"slices"
	"strings"
)

// A branch is a schema without alternatives and references, and where it comes from.
type branch struct {
	o  *object
	at string
}

// maxBranches bounds the alternatives of a schema after allOf was worked out.
const maxBranches = 1 << 10

// branches returns the alternatives of a schema, each with all that must hold at the same time.
func (s *schemas) branches(v any, at string, depth int) ([]branch, error) {
	if depth > 50 {
		return nil, bad(at, "refers to itself without an object or array between").(hinter).WithHint(
			"a value would contain itself without end")
	}
	o, ok := v.(*object)
	switch {
	case v == false:
		return nil, nil
	case !ok:
		return []branch{{&object{}, at}}, nil
	}
	base := o.clone()
	out := []branch{{base, at}}
	var err error
	both := func(others []branch) {
		if out, err = s.both(out, others, at); err == nil && len(out) > maxBranches {
			err = bad(at, "has more than %d combinations of alternatives", maxBranches)
		}
	}
	for _, k := range []string{"$ref", "allOf", "anyOf", "oneOf"} {
		v, ok := o.get(k)
		if !ok {
			continue
		}
		base.drop(k)
		if k == "$ref" {
			to, place, _ := s.resolve(v, at)
			others, err := s.branches(to, place, depth+1)
			if err != nil {
				return nil, err
			}
			both(others)
			continue
		}
		var each [][]branch
		for i, x := range v.([]any) {
			others, err := s.branches(x, at+"/"+k+"/"+itoa(i), depth+1)
			if err != nil {
				return nil, err
			}
			each = append(each, others)
		}
		switch k {
		case "allOf":
			for _, others := range each {
				if err == nil {
					both(others)
				}
			}
		case "oneOf":
			if err := s.checkApart(each, at); err != nil {
				return nil, err
			}
			fallthrough
		default:
			both(slices.Concat(each...))
		}
		if err != nil {
			return nil, err
		}
	}
	return out, err
}

// both returns the combinations of a branch of each list.
func (s *schemas) both(a, b []branch, at string) (out []branch, err error) {
	for _, x := range a {
		for _, y := range b {
			switch {
			case s.assertions(x.o) == 0:
				out = append(out, y)
			case s.assertions(y.o) == 0:
				out = append(out, x)
			default:
				o, fits, err := s.merge(x.o, y.o, at)
				if err != nil {
					return nil, err
				}
				if fits {
					out = append(out, branch{o, at})
				}
			}
			if len(out) > maxBranches {
				return out, nil
			}
		}
	}
	return out, nil
}

// merge returns a schema of the values that fit both a and b. fits is false if no value does.
func (s *schemas) merge(a, b *object, at string) (out *object, fits bool, err error) {
	a, b = withNull(a), withNull(b)
	out, fits = a.clone(), true
	if err := s.mergeMembers(out, a, b); err != nil {
		return nil, false, err
	}
	for _, k := range b.keys {
		y := b.values[k]
		x, ok := a.get(k)
		switch {
		case k == "properties" || k == "additionalProperties":
		case !ok || encoded(x) == encoded(y):
			if _, there := out.get(k); !there {
				out.set(k, y)
			}
		default:
			both, err := mergeValues(out, k, x, y, at)
			if err != nil {
				return nil, false, err
			}
			fits = fits && both
		}
	}
	_, prefixA := a.get("prefixItems")
	_, prefixB := b.get("prefixItems")
	_, itemsA := a.get("items")
	_, itemsB := b.get("items")
	if prefixA != prefixB && (prefixA && itemsB || prefixB && itemsA) {
		return nil, false, bad(at, "prefixItems and items must hold for the same array; that is not supported")
	}
	return out, fits, nil
}

// mergeValues sets a keyword, which has two values, to what fits both. It returns false if nothing does.
func mergeValues(out *object, k string, x, y any, at string) (fits bool, err error) {
	switch {
	case k == "type":
		list := []any{}
		for _, t := range commonTypes(strings2(x), strings2(y)) {
			list = append(list, t)
		}
		out.set(k, list)
		return len(list) > 0, nil
	case k == "required":
		list := slices.Clone(anys(x))
		for _, v := range anys(y) {
			if !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
		out.set(k, list)
	case k == "enum":
		list := slices.DeleteFunc(slices.Clone(anys(x)), func(v any) bool {
			return !slices.ContainsFunc(anys(y), func(w any) bool { return encoded(v) == encoded(w) })
		})
		out.set(k, list)
		return len(list) > 0, nil
	case k == "const":
		return false, nil
	case strings.Contains(strings.ToLower(k), "min") || strings.Contains(strings.ToLower(k), "max"):
		less, ok := lessNumber(x, y)
		if !ok {
			return false, bad(at, "%s is %s and %s; want numbers", k, short(x), short(y))
		}
		if less == !strings.Contains(strings.ToLower(k), "max") {
			out.set(k, y)
		}
	case k == "items":
		out.set(k, &object{keys: []string{"allOf"}, values: map[string]any{"allOf": []any{x, y}}})
	case keywords[k] != "" || k == "nullable":
		return false, bad(at, "%q is %s in one place and %s in another, which must both hold; that is not supported",
			k, short(x), short(y))
	}
	return true, nil
}

// mergeMembers sets properties and additionalProperties to what fits both a and b.
func (s *schemas) mergeMembers(out, a, b *object) error {
	all := func(x, y any) any {
		return &object{keys: []string{"allOf"}, values: map[string]any{"allOf": []any{x, y}}}
	}
	pa, pb := propertiesOf(a), propertiesOf(b)
	moreA, givenA := a.get("additionalProperties")
	moreB, givenB := b.get("additionalProperties")
	both := &object{}
	for _, k := range slices.Concat(pa.keys, pb.keys) {
		x, inA := pa.get(k)
		y, inB := pb.get(k)
		switch {
		case inA && inB:
			if encoded(x) != encoded(y) {
				x = all(x, y)
			}
			both.set(k, x)
		case inA && givenB && moreB != true:
			both.set(k, all(x, moreB))
		case inB && givenA && moreA != true:
			both.set(k, all(y, moreA))
		case inA:
			both.set(k, x)
		default:
			both.set(k, y)
		}
	}
	if len(both.keys) > 0 {
		out.set("properties", both)
	}
	switch {
	case givenA && givenB && encoded(moreA) != encoded(moreB):
		out.set("additionalProperties", all(moreA, moreB))
	case givenB:
		out.set("additionalProperties", moreB)
	}
	return nil
}

func propertiesOf(o *object) *object {
	p, ok := o.values["properties"].(*object)
	if !ok {
		return &object{}
	}
	return p
}

// withNull returns the schema with nullable as one of the types.
func withNull(o *object) *object {
	if v, ok := o.get("nullable"); !ok || v != true && v != false {
		return o
	}
	out := o.clone()
	out.drop("nullable")
	if t, ok := o.get("type"); ok && o.values["nullable"] == true {
		list := []any{"null"}
		for _, x := range strings2(t) {
			if x != "null" {
				list = append(list, x)
			}
		}
		out.set("type", list)
	}
	return out
}

func anys(v any) []any {
	list, _ := v.([]any)
	return list
}

// strings2 returns the texts of a list of texts or of one.
func strings2(v any) (out []string) {
	if one, ok := v.(string); ok {
		return []string{one}
	}
	for _, x := range anys(v) {
		if t, ok := x.(string); ok {
			out = append(out, t)
		}
	}
	return out
}

// commonTypes returns the types of which a value may be by both lists.
func commonTypes(a, b []string) (out []string) {
	has := func(list []string, t string) bool {
		return slices.Contains(list, t) || t == "integer" && slices.Contains(list, "number")
	}
	for _, t := range types {
		part := t == "integer" && slices.Contains(a, "number") && slices.Contains(b, "number")
		if has(a, t) && has(b, t) && !part {
			out = append(out, t)
		}
	}
	return out
}

func lessNumber(x, y any) (less, ok bool) {
	a, okA := number(x)
	b, okB := number(y)
	return okA && okB && a.Cmp(b) < 0, okA && okB
}

// number returns the exact value of a JSON number that is not huge.
func number(v any) (*big.Rat, bool) {
	text, ok := v.(interface{ Float64() (float64, error) })
	if !ok {
		return nil, false
	}
	f, err := text.Float64()
	if err != nil || f > 1e18 || f < -1e18 || f != 0 && f < 1e-18 && f > -1e-18 {
		return nil, false
	}
	return new(big.Rat).SetString(encoded(v))
}

// checkApart refuses alternatives of oneOf of which several may fit the same value.
func (s *schemas) checkApart(each [][]branch, at string) error {
	for i := range each {
		for j := range i {
			for _, x := range each[i] {
				for _, y := range each[j] {
					if !s.apart(x, y, 0) {
						return bad(at+"/oneOf", "a value may fit both alternatives %d and %d", j, i).(hinter).WithHint(
							"use anyOf, give them different types, or a required property with const that tells them apart")
					}
				}
			}
		}
	}
	return nil
}

// apart reports whether it is plain that no value fits both schemas.
func (s *schemas) apart(x, y branch, depth int) bool {
	a, b := withNull(x.o), withNull(y.o)
	va, _, listedA, _ := s.listed(a, x.at)
	vb, _, listedB, _ := s.listed(b, y.at)
	typesA, typesB := types, types
	if t, ok := a.get("type"); ok {
		typesA = strings2(t)
	}
	if t, ok := b.get("type"); ok {
		typesB = strings2(t)
	}
	if listedA {
		typesA = typesOfValues(va)
	}
	if listedB {
		typesB = typesOfValues(vb)
	}
	common := commonTypes(typesA, typesB)
	switch {
	case len(common) == 0:
		return true
	case listedA && listedB:
		return !slices.ContainsFunc(va, func(v any) bool {
			return slices.ContainsFunc(vb, func(w any) bool { return sameValue(v, w) })
		})
	case len(common) > 1 || common[0] != "object" || listedA || listedB || depth > 3:
		return false
	}
	ra, _ := s.required(a, x.at)
	rb, _ := s.required(b, y.at)
	for _, k := range ra {
		p, inA := propertiesOf(a).get(k)
		q, inB := propertiesOf(b).get(k)
		if !inA || !inB || !slices.Contains(rb, k) {
			continue
		}
		below := "/properties/" + escaped(k)
		ps, err := s.branches(p, x.at+below, 40)
		qs, err2 := s.branches(q, y.at+below, 40)
		if err != nil || err2 != nil {
			continue
		}
		all := true
		for _, p := range ps {
			for _, q := range qs {
				all = all && s.apart(p, q, depth+1)
			}
		}
		if all {
			return true
		}
	}
	return false
}

// sameValue reports whether two values may be equal.
func sameValue(v, w any) bool {
	if t := typeOf(v); t != typeOf(w) && (t == "number" || t == "integer") == (typeOf(w) == "number" ||
		typeOf(w) == "integer") {
		return t == "number" || t == "integer"
	}
	switch v.(type) {
	case string, bool, nil:
		return encoded(v) == encoded(w)
	case interface{ Float64() (float64, error) }:
		a, okA := number(v)
		b, okB := number(w)
		return !okA || !okB || a.Cmp(b) == 0
	}
	return true
}

func typesOfValues(values []any) (out []string) {
	for _, v := range values {
		if t := typeOf(v); !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// typeOf returns the type of a value; a number without a fraction is an integer.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case *object:
		return "object"
	default:
		if r, ok := number(v); ok && r.IsInt() {
			return "integer"
		}
	}
	return "number"
}
