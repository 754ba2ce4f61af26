package grammar

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// ParseSchema makes a grammar of the JSON texts that fit a JSON schema (draft 2020-12, and what earlier drafts call
// definitions, lists of items and additionalItems). Every text of the grammar fits the schema. The grammar is narrower
// where that helps models: properties come in the order of the schema, an object has only those that are listed unless
// additionalProperties says more, and a keyword such as properties without a type implies the type.
//
// Errors have the code code.TextGrammar and name a keyword that is not supported, and its place as a JSON pointer.
func ParseSchema(source []byte) (*Grammar, error) {
	g := &Grammar{}
	var err error
	if g.root, err = schemaRule(g, source); err != nil {
		return nil, err
	}
	return g, g.finish(func(i int) string { return "the schema at " + g.names[i] })
}

// schemaRule adds the rules of a schema to a grammar. It returns the first.
func schemaRule(g *Grammar, source []byte) (int, error) {
	if len(source) > MaxSource {
		return 0, fail("the schema has %d bytes; allowed are %d", len(source), MaxSource)
	}
	v, err := parseJSON(source)
	if err != nil {
		return 0, fail("the schema is not JSON: %v", err)
	}
	s := &schemas{document: v, g: g, made: map[string]int{}, checked: map[string]bool{}}
	if err := s.check(v, "#"); err != nil {
		return 0, err
	}
	return s.rule(v, "#")
}

// schemas makes the rules of a grammar of the schemas of a document.
type schemas struct {
	document any
	g        *Grammar
	made     map[string]int // rules by their keys; see once
	checked  map[string]bool
	depth    int
}

// bad returns an error at a place in a schema.
func bad(at, format string, args ...any) error {
	return diag.New(code.TextGrammar, "", "%s: %s", at, fmt.Sprintf(format, args...))
}

// once returns a reference to the rule for a key. make describes the rule. name names it in errors.
func (s *schemas) once(key, name string, make func() (*expr, error)) (*expr, error) {
	if i, ok := s.made[key]; ok {
		return ref(i), nil
	}
	i := len(s.g.rules)
	if i >= maxRules {
		return nil, fail("the schema has more than %d parts", maxRules)
	}
	s.made[key] = i
	s.g.rules, s.g.names = append(s.g.rules, nil), append(s.g.names, name)
	x, err := make()
	if err != nil {
		return nil, err
	}
	s.g.rules[i] = x
	return ref(i), nil
}

// rule returns the number of the rule of a schema. Equal schemas have the same rule, which ends the recursion of those
// that refer to themselves.
func (s *schemas) rule(v any, at string) (int, error) {
	x, err := s.once("schema "+encoded(v), at, func() (*expr, error) { return s.schema(v, at) })
	if err != nil {
		return 0, err
	}
	return x.rule, nil
}

// annotations say nothing about which texts fit.
var annotations = []string{"title", "description", "default", "examples", "$comment", "$schema", "$id", "deprecated",
	"readOnly", "writeOnly", "$defs", "definitions"}

// keywords lists the others, with the type that they are about.
var keywords = map[string]string{"type": "", "nullable": "", "enum": "", "const": "", "anyOf": "", "oneOf": "",
	"allOf": "", "$ref": "",
	"properties": "object", "required": "object", "additionalProperties": "object",
	"items": "array", "prefixItems": "array", "additionalItems": "array", "minItems": "array", "maxItems": "array",
	"minLength": "string", "maxLength": "string", "pattern": "string", "format": "string",
	"minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number"}

var types = []string{"null", "boolean", "integer", "number", "string", "array", "object"}

// schema returns what fits a schema.
func (s *schemas) schema(v any, at string) (*expr, error) {
	if s.depth++; s.depth > maxDepth {
		return nil, bad(at, "schemas are nested more than %d deep", maxDepth)
	}
	defer func() { s.depth-- }()
	o, fits := v.(*object)
	if !fits {
		if v == false {
			return alt(), nil
		}
		o = &object{}
	}
	if to, ok := o.get("$ref"); ok && s.assertions(o) == 1 { // also a schema that refers to itself
		other, place, err := s.resolve(to, at)
		if err != nil {
			return nil, err
		}
		i, err := s.rule(other, place)
		return ref(i), err
	}
	all, err := s.branches(o, at, 0)
	if err != nil {
		return nil, err
	}
	var list []*expr
	for _, b := range all {
		x, err := s.plain(b.o, b.at)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return alt(list...), nil
}

// check checks the keywords of a schema and of those in it or that it refers to.
func (s *schemas) check(v any, at string) error {
	if s.depth++; s.depth > maxDepth {
		return bad(at, "schemas are nested more than %d deep", maxDepth)
	}
	defer func() { s.depth-- }()
	if _, ok := v.(bool); ok || s.checked[at] {
		return nil
	}
	s.checked[at] = true
	o, ok := v.(*object)
	if !ok {
		return bad(at, "is %s; want an object, true or false", short(v))
	}
	for _, k := range o.keys {
		v, below := o.values[k], at+"/"+escaped(k)
		_, ok := keywords[k]
		switch {
		case !ok && !slices.Contains(annotations, k) && !harmless(k, v):
			return bad(below, "the keyword %q is not supported", k).(*diag.Error).WithHint(
				"docs/text.md lists those that are; leave it out, and check it in the text that you get")
		case k == "$ref":
			to, place, err := s.resolve(v, at)
			if err == nil {
				err = s.check(to, place)
			}
			if err != nil {
				return err
			}
		}
		var err error
		switch list, many := v.([]any); {
		case k == "properties":
			list, ok := v.(*object)
			if !ok {
				return bad(below, "is %s; want an object", short(v))
			}
			for _, name := range list.keys {
				err = cmp.Or(err, s.check(list.values[name], below+"/"+escaped(name)))
			}
		case slices.Contains([]string{"anyOf", "oneOf", "allOf", "prefixItems"}, k) || k == "items" && many:
			if len(list) == 0 {
				return bad(below, "is %s; want a list of schemas", short(v))
			}
			for i, x := range list {
				err = cmp.Or(err, s.check(x, fmt.Sprintf("%s/%d", below, i)))
			}
		case slices.Contains([]string{"items", "additionalItems", "additionalProperties"}, k):
			err = s.check(v, below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// harmless reports whether a keyword has a value that restricts nothing.
func harmless(key string, v any) bool {
	switch key {
	case "uniqueItems":
		return v == false
	case "minProperties", "minContains":
		n, ok := v.(interface{ Int64() (int64, error) })
		if ok {
			i, err := n.Int64()
			return err == nil && i == 0
		}
	case "unevaluatedProperties", "unevaluatedItems":
		return v == true
	}
	return false
}

// assertions counts the keywords of a schema that are not annotations.
func (s *schemas) assertions(o *object) (n int) {
	for _, k := range o.keys {
		if _, ok := keywords[k]; ok {
			n++
		}
	}
	return n
}

// short returns the beginning of a value as JSON.
func short(v any) string { return fmt.Sprintf("%.60s", encoded(v)) }

// escaped returns a key as a part of a JSON pointer.
func escaped(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// resolve returns the schema that a $ref is about, and its place.
func (s *schemas) resolve(to any, at string) (any, string, error) {
	at += "/$ref"
	pointer, ok := to.(string)
	if !ok {
		return nil, "", bad(at, "is %s; want a text", short(to))
	}
	if pointer != "#" && !strings.HasPrefix(pointer, "#/") {
		return nil, "", bad(at, "refers to %q; want # or #/..., a place in the same schema", pointer)
	}
	v, place := s.document, "#"
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer[1:], "/"), "/") {
		if pointer == "#" {
			break
		}
		part = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%", "%20", " ").Replace(part)
		found := false
		switch x := v.(type) {
		case *object:
			v, found = x.get(part)
		case []any:
			if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(x) {
				v, found = x[i], true
			}
		}
		if !found {
			return nil, "", bad(at, "refers to %q, which is not in the schema", pointer)
		}
		place += "/" + escaped(part)
	}
	return v, place, nil
}

// typesOf returns the types that a schema without alternatives allows.
func (s *schemas) typesOf(o *object, at string) ([]string, error) {
	var out []string
	switch v, given := o.get("type"); v := v.(type) {
	case string:
		out = []string{v}
	case []any:
		for _, x := range v {
			t, ok := x.(string)
			if !ok {
				return nil, bad(at+"/type", "is %s; want the name of a type, or a list of them", short(v))
			}
			out = append(out, t)
		}
	default:
		if given {
			return nil, bad(at+"/type", "is %s; want the name of a type, or a list of them", short(v))
		}
		for _, k := range o.keys {
			if t := keywords[k]; t != "" && !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
		if out == nil {
			return types, nil
		}
	}
	for _, t := range out {
		if !slices.Contains(types, t) {
			return nil, bad(at+"/type", "is %q; want one of %s", t, strings.Join(types, ", "))
		}
	}
	if v, _ := o.get("nullable"); v == true && !slices.Contains(out, "null") {
		out = append(out, "null")
	}
	if slices.Contains(out, "number") {
		out = slices.DeleteFunc(slices.Clone(out), func(t string) bool { return t == "integer" })
	}
	return out, nil
}

// plain returns what fits a schema without alternatives and references.
func (s *schemas) plain(o *object, at string) (*expr, error) {
	allowed, err := s.typesOf(o, at)
	if err != nil {
		return nil, err
	}
	if values, where, ok, err := s.listed(o, at); err != nil || ok {
		if err != nil {
			return nil, err
		}
		return s.values(o, values, allowed, where)
	}
	if len(allowed) == len(types) && s.assertions(o) == 0 {
		return s.any()
	}
	var list []*expr
	for _, t := range allowed {
		x, err := s.ofType(o, t, at)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return alt(list...), nil
}

// listed returns the values of enum or const.
func (s *schemas) listed(o *object, at string) (values []any, where string, ok bool, err error) {
	if v, is := o.get("enum"); is {
		list, isList := v.([]any)
		if !isList || len(list) == 0 {
			return nil, "", false, bad(at+"/enum", "is %s; want a list of values", short(v))
		}
		values, where, ok = list, at+"/enum", true
	}
	if v, is := o.get("const"); is {
		if ok && !slices.ContainsFunc(values, func(x any) bool { return encoded(x) == encoded(v) }) {
			return nil, "", false, bad(at+"/const", "is not among those of enum")
		}
		values, where, ok = []any{v}, at+"/const", true
	}
	return values, where, ok, nil
}

// values returns the listed values that have an allowed type. Other keywords beside them are refused.
func (s *schemas) values(o *object, values []any, allowed []string, where string) (*expr, error) {
	for _, k := range o.keys {
		if keywords[k] != "" {
			return nil, bad(where, "cannot be combined with %q; list the values that fit both", k)
		}
	}
	var list []*expr
	for _, v := range values {
		if t := typeOf(v); slices.Contains(allowed, t) || t == "integer" && slices.Contains(allowed, "number") {
			list = append(list, literal(encoded(v)))
		}
	}
	if len(list) == 0 {
		return nil, bad(where, "has no value of the type %s", strings.Join(allowed, " or "))
	}
	return alt(list...), nil
}

// ofType returns what fits the keywords about a type.
func (s *schemas) ofType(o *object, t, at string) (*expr, error) {
	switch t {
	case "null":
		return literal("null"), nil
	case "boolean":
		return alt(literal("true"), literal("false")), nil
	case "integer":
		return s.integer(o, at)
	case "number":
		return s.number(o, at)
	case "string":
		return s.string(o, at)
	case "array":
		return s.array(o, at)
	}
	return s.members(o, at)
}

// any returns all values.
func (s *schemas) any() (*expr, error) {
	return s.once("any value", "any value", func() (*expr, error) {
		var list []*expr
		for _, t := range types {
			if t == "integer" {
				continue
			}
			x, err := s.ofType(&object{}, t, "#")
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
		return alt(list...), nil
	})
}

// space returns the white space that may be after { [ , and before ] }: nothing, a space, or the end of a line and
// up to 20 spaces. More would let a model go on without end.
func (s *schemas) space() *expr {
	x, _ := s.once("white space", "white space", func() (*expr, error) {
		return alt(literal(""), literal(" "), seq(literal("\n"), repeat(class(' ', ' ', '\t', '\t'), 0, 20))), nil
	})
	return x
}

// count returns the value of a keyword that counts things, such as minItems.
func (s *schemas) count(o *object, key, at string, otherwise int) (int, error) {
	v, ok := o.get(key)
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.Atoi(fmt.Sprint(v))
	if f, err := strconv.ParseFloat(fmt.Sprint(v), 64); err == nil && f == float64(int(f)) && f >= 0 { // such as 2.0
		n = int(f)
	} else if err != nil {
		n = -1
	}
	if _, text := v.(string); text || n < 0 || err != nil && n == 0 {
		return 0, bad(at+"/"+key, "is %s; want a whole number of 0 or more", short(v))
	}
	if n > maxRepeat {
		return 0, bad(at+"/"+key, "is %d; allowed are %d", n, maxRepeat)
	}
	return n, nil
}
