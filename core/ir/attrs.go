package ir

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// Attr is the name and value of an attribute. Value is a bool, int64, float64, string, []int64, dtype.DType, *Graph, or
// []Attr for attributes that a definition outside of RLX gives names to.
type Attr struct {
	Name  string
	Value any
}

// attrCodec converts between a struct with attr tags and a sorted list of Attr.
type attrCodec struct {
	typ    reflect.Type
	fields []attrField // sorted by name
	names  []string    // of fields
}

type attrField struct {
	name  string
	index int
	graph bool   // see body.go
	kind  string // see OpDef.AttrKind
}

var (
	dtypeType = reflect.TypeFor[dtype.DType]()
	attrsType = reflect.TypeFor[[]Attr]()
)

func newAttrCodec(op string, t reflect.Type) attrCodec {
	c := attrCodec{typ: t}
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("attr")
		ok := name != "" && f.IsExported()
		switch {
		case f.Type == dtypeType, f.Type == graphType, f.Type == attrsType:
		case f.Type.Kind() == reflect.Slice:
			ok = ok && f.Type.Elem().Kind() == reflect.Int
		default:
			ok = ok && slices.Contains([]reflect.Kind{reflect.Bool, reflect.Int, reflect.Float64, reflect.String},
				f.Type.Kind())
		}
		if !ok {
			panic(
				"BUG: op " + op + ": attribute field " + f.Name +
					" has no attr tag or a type that attributes cannot have")
		}
		c.fields = append(c.fields, attrField{name, i, f.Type == graphType, attrKind(f.Type)})
	}
	slices.SortFunc(c.fields, func(a, b attrField) int { return cmp.Compare(a.name, b.name) })
	for _, f := range c.fields {
		c.names = append(c.names, f.name)
	}
	return c
}

// attrKind returns the name of a field's type, see OpDef.AttrKind.
func attrKind(t reflect.Type) string {
	switch {
	case t == dtypeType:
		return "dtype"
	case t == graphType:
		return "graph"
	case t == attrsType:
		return "attrs"
	case t.Kind() == reflect.Slice:
		return "ints"
	case t.Kind() == reflect.Float64:
		return "float"
	}
	return t.Kind().String()
}

func (c attrCodec) accepts(a any) bool { return reflect.TypeOf(a) == c.typ }
func (c attrCodec) zero() any          { return reflect.Zero(c.typ).Interface() }

// Attrs returns the attributes sorted by name, including zero values.
func (d *OpDef) Attrs(a any) []Attr {
	v := reflect.ValueOf(a)
	out := make([]Attr, 0, len(d.attrs.fields))
	for _, f := range d.attrs.fields {
		fv := v.Field(f.index)
		var x any
		switch {
		case fv.Type() == dtypeType, fv.Type() == attrsType, f.graph:
			x = fv.Interface()
		case fv.Kind() == reflect.Bool:
			x = fv.Bool()
		case fv.Kind() == reflect.Int:
			x = fv.Int()
		case fv.Kind() == reflect.Float64:
			x = fv.Float()
		case fv.Kind() == reflect.String:
			x = fv.String()
		default:
			ints := make([]int64, fv.Len())
			for i := range ints {
				ints[i] = fv.Index(i).Int()
			}
			x = ints
		}
		out = append(out, Attr{f.name, x})
	}
	return out
}

// AttrNames returns the names of the attributes, sorted. The caller must not change the list.
func (d *OpDef) AttrNames() []string { return d.attrs.names }

// AttrKind returns the type of an attribute: bool, int, float, string, ints, dtype, graph or attrs.
func (d *OpDef) AttrKind(name string) string {
	for _, f := range d.attrs.fields {
		if f.name == name {
			return f.kind
		}
	}
	return ""
}

// ValueKind returns the type of an attribute's value, as AttrKind names it, or "unknown".
func ValueKind(v any) string {
	switch v.(type) {
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "string"
	case []int64:
		return "ints"
	case dtype.DType:
		return "dtype"
	case *Graph:
		return "graph"
	case []Attr:
		return "attrs"
	}
	return "unknown"
}

// MakeAttrs makes the attributes from a list. Attributes that are not listed are zero. It returns an error for unknown
// names, repeated names and values of the wrong type. It does not check ranges; type inference does.
func (d *OpDef) MakeAttrs(list []Attr) (any, error) {
	v := reflect.New(d.attrs.typ).Elem()
	for at, a := range list {
		i := slices.IndexFunc(d.attrs.fields, func(f attrField) bool { return f.name == a.Name })
		if i < 0 {
			if k := d.Operand(strings.TrimPrefix(a.Name, "has_")); k >= 0 { // flags of earlier versions
				name := d.Operands[k].Name
				return nil, fmt.Errorf("%s: %s is not an attribute; to give the operand %s, write %s", d.Name, a.Name,
					name, d.usage(func(o Operand) bool { return o.Name == name }))
			}
			return nil, fmt.Errorf("%s: unknown attribute %q; known: %v", d.Name, a.Name, d.AttrNames())
		}
		if slices.ContainsFunc(list[:at], func(b Attr) bool { return b.Name == a.Name }) {
			return nil, fmt.Errorf("%s: attribute %q is given twice", d.Name, a.Name)
		}
		if !setAttr(v.Field(d.attrs.fields[i].index), a.Value) {
			value := fmt.Sprint(a.Value)
			if _, ok := a.Value.(*Graph); ok {
				value = a.Text()
			}
			return nil, fmt.Errorf("%s: attribute %q is %s; want %s", d.Name, a.Name, value, d.AttrKind(a.Name))
		}
	}
	return v.Interface(), nil
}

func setAttr(f reflect.Value, val any) bool {
	switch x := val.(type) {
	case dtype.DType:
		if f.Type() != dtypeType {
			return false
		}
		f.Set(reflect.ValueOf(x))
	case *Graph:
		if f.Type() != graphType {
			return false
		}
		f.Set(reflect.ValueOf(x))
	case []Attr:
		if f.Type() != attrsType {
			return false
		}
		if len(x) > 0 { // nil and empty lists are equal
			f.Set(reflect.ValueOf(x))
		}
	case bool:
		if f.Kind() != reflect.Bool {
			return false
		}
		f.SetBool(x)
	case int64:
		switch f.Kind() {
		case reflect.Int:
			f.SetInt(x)
		case reflect.Float64: // text may have 2 for 2.0
			f.SetFloat(float64(x))
		default:
			return false
		}
	case float64:
		if f.Kind() != reflect.Float64 {
			return false
		}
		f.SetFloat(x)
	case string:
		if f.Kind() != reflect.String {
			return false
		}
		f.SetString(x)
	case []int64:
		if f.Kind() != reflect.Slice {
			return false
		}
		if len(x) == 0 {
			return true // nil and empty lists are equal
		}
		ints := reflect.MakeSlice(f.Type(), len(x), len(x))
		for i, n := range x {
			ints.Index(i).SetInt(n)
		}
		f.Set(ints)
	default:
		return false
	}
	return true
}

// isZero reports whether the value is the zero value, which text omits.
func (a Attr) isZero() bool {
	switch x := a.Value.(type) {
	case []int64:
		return len(x) == 0
	case []Attr:
		return len(x) == 0
	default:
		return reflect.ValueOf(x).IsZero() &&
			!(reflect.TypeOf(x).Kind() == reflect.Float64 && math.Signbit(x.(float64)))
	}
}

// Text returns the value as text, which ParseValue parses to a value of the same type. A graph is @NAME, which only the
// parser of a file that has this graph understands.
func (a Attr) Text() string {
	switch x := a.Value.(type) {
	case float64:
		s := strconv.FormatFloat(x, 'g', -1, 64)
		if !strings.ContainsAny(s, ".eIN") {
			s += ".0"
		}
		return s
	case string:
		return strconv.Quote(x)
	case []int64:
		parts := make([]string, len(x))
		for i, n := range x {
			parts[i] = strconv.FormatInt(n, 10)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case []Attr:
		parts := make([]string, len(x))
		for i, a := range x {
			parts[i] = a.Name + "=" + a.Text()
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *Graph:
		if x == nil {
			return "@"
		}
		return "@" + x.Name
	default:
		return fmt.Sprint(x)
	}
}

// ParseValue parses the value of an attribute: true or false, "text", [1,2], an element type, a number or {a=1, b=2.0}.
func ParseValue(s string) (any, error) {
	switch {
	case strings.HasPrefix(s, "{"):
		return parseOwn(s)
	case s == "true" || s == "false":
		return s == "true", nil
	case strings.HasPrefix(s, `"`):
		return strconv.Unquote(s)
	case strings.HasPrefix(s, "["):
		inner, closed := strings.CutSuffix(s[1:], "]")
		if !closed {
			return nil, fmt.Errorf("list %q is not closed by ]", s)
		}
		ints := []int64{}
		if inner = strings.TrimSpace(inner); inner == "" {
			return ints, nil
		}
		for part := range strings.SplitSeq(inner, ",") {
			n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("list %q holds %q, not an integer", s, part)
			}
			ints = append(ints, n)
		}
		return ints, nil
	}
	if d, ok := dtype.Parse(s); ok {
		return d, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return f, nil
	}
	return nil, fmt.Errorf("value %q is not a bool, number, string, list or element type", s)
}

// parseOwn parses {a=1, b="x"}. CheckOwn has the rules for such a list.
func parseOwn(s string) ([]Attr, error) {
	inner, closed := strings.CutSuffix(s[1:], "}")
	if !closed {
		return nil, fmt.Errorf("attributes %q are not closed by }", s)
	}
	list, err := parseAttrs(inner, func(s string) (any, error) {
		if strings.HasPrefix(s, "{") {
			return nil, fmt.Errorf("value %q is not allowed inside of {}", s)
		}
		return ParseValue(s)
	})
	if err == nil {
		err = CheckOwn(list)
	}
	return list, err
}

// CheckOwn returns an error unless each value of a list of type []Attr is a bool, int64, float64, string, []int64 or
// dtype.DType, and the names are symbols in ascending order.
func CheckOwn(list []Attr) error {
	if err := check(len(list), maxAttrs, "attributes"); err != nil {
		return err
	}
	for k, a := range list {
		if !IsSymbol(a.Name) || k > 0 && a.Name <= list[k-1].Name {
			return fmt.Errorf("attribute %.40q; want names of letters, digits and _, in ascending order", a.Name)
		}
		switch x := a.Value.(type) {
		case bool, int64, string, []int64:
			continue
		case dtype.DType:
			if x != dtype.Invalid {
				continue
			}
		case float64:
			if !math.IsNaN(x) {
				continue
			}
		}
		return fmt.Errorf("attribute %s is %v; want a bool, number, string, list of integers or element type", a.Name, a.Value)
	}
	return nil
}
