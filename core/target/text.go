package target

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// channelsLast is the layout that the line "layout" names.
const channelsLast = "channels_last"

// String returns the text form, which Parse reads. Equal descriptions have equal texts.
func (d *Description) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "target %s %s\n", d.Name, d.Version)
	if len(d.Levels) > 0 {
		fmt.Fprintf(&b, "levels %s\n", strings.Join(d.Levels, " "))
	}
	fmt.Fprintf(&b, "types %s\n", join(d.Types, " "))
	if d.MaxRank > 0 {
		fmt.Fprintf(&b, "limit rank %d\n", d.MaxRank)
	}
	if d.MaxOperands > 0 {
		fmt.Fprintf(&b, "limit operands %d\n", d.MaxOperands)
	}
	if d.ChannelsLast > 0 {
		fmt.Fprintf(&b, "layout %s %d\n", channelsLast, d.ChannelsLast)
	}
	if len(d.Rules) > 0 {
		b.WriteByte('\n')
	}
	for _, r := range d.Rules {
		b.WriteString(r.String() + "\n")
	}
	return b.String()
}

// String returns the rule as one line of text, without a newline.
func (r Rule) String() string {
	word := "run"
	if r.How == Reference {
		word = "reference"
	}
	if r.Op == AnyOp {
		return word + " " + AnyOp
	}
	in, n := make([]string, len(r.In)), r.positional()
	for i, o := range r.In {
		in[i] = o.String()
		if r.More && i == n-1 {
			in[i] += "..."
		}
	}
	s := word + " " + r.Op + "(" + strings.Join(in, ", ") + ")"
	for i, o := range r.Out {
		s += [...]string{" -> ", ", "}[min(i, 1)] + o.String()
	}
	for i, c := range r.If {
		s += [...]string{" if ", " and "}[min(i, 1)] + c.String()
	}
	return s
}

func (o Operand) String() string {
	s := "any"
	switch {
	case o.Same:
		s = "same"
	case o.Types != nil:
		s = join(o.Types, "|")
	}
	if o.Name != "" {
		s = o.Name + ": " + s
	}
	if o.Ranked {
		s += " " + o.rank()
	}
	if o.Static {
		s += " static"
	}
	if o.Param {
		s += " param"
	}
	return s
}

func (o Operand) rank() string {
	if o.MinRank == o.MaxRank {
		return fmt.Sprint("rank ", o.MinRank)
	}
	return fmt.Sprintf("rank %d..%d", o.MinRank, o.MaxRank)
}

func (c Condition) String() string {
	values := make([]string, len(c.Values))
	for i, v := range c.Values {
		if w, ok := v.(Word); ok {
			values[i] = string(w)
		} else {
			values[i] = ir.Attr{Value: v}.Text()
		}
	}
	return c.Attr + " " + c.Rel + " " + strings.Join(values, "|")
}

func join(types []dtype.DType, sep string) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return strings.Join(names, sep)
}

// Check returns an error if the description names an op or an attribute that this program does not have, or a value of
// the wrong type. It is meant for descriptions that people write. A newer backend may send one that names unknown ops;
// that does no harm.
func (d *Description) Check() error {
	for _, r := range d.Rules {
		if err := r.check(); err != nil {
			at := r.String()
			if r.line > 0 {
				at = "line " + strconv.Itoa(r.line)
			}
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

func (r Rule) check() error {
	if r.Op == AnyOp {
		return nil
	}
	def, ok := ir.Find(r.Op)
	switch {
	case !ok:
		return fmt.Errorf("op %q is unknown", r.Op)
	case def.Block:
		return fmt.Errorf("op %s is a block, which no target runs", r.Op)
	}
	n := r.positional()
	if !def.Variadic() && n > def.Required() {
		return fmt.Errorf(
			"op %s has the operands %s; the rule has %d without a name, want %d (name others: NAME: TYPES)", r.Op,
			def.Signature(), n, def.Required())
	}
	for _, o := range r.In[n:] {
		if k := def.Operand(o.Name); k < 0 || def.Operands[k].Variadic || k < n {
			return fmt.Errorf("op %s has no operand %s that the rule does not list already; it has %s", r.Op, o.Name,
				def.Signature())
		}
	}
	for _, c := range r.If {
		if c.Attr == Parts && !def.CanLower() {
			return fmt.Errorf("op %s has no parts: it has no lowering", r.Op)
		}
		if c.Attr == Parts || c.Attr == Broadcast {
			continue
		}
		kind := def.AttrKind(c.Attr)
		named := func(a string) bool { return def.AttrKind(a) == "attrs" }
		if kind == "" && slices.ContainsFunc(def.AttrNames(), named) {
			continue // an attribute that a definition outside of RLX names
		}
		if kind == "" {
			return fmt.Errorf("op %s has no attribute %q; it has %s", r.Op, c.Attr, strings.Join(def.AttrNames(), ", "))
		}
		for _, v := range c.Values {
			if !fits(v, kind, c.Rel) {
				return fmt.Errorf("op %s: attribute %s is of type %s, which %q does not compare", r.Op, c.Attr, kind, c)
			}
		}
	}
	return nil
}

// fits reports whether a value can be compared with an attribute of a kind.
func fits(v any, kind, rel string) bool {
	switch v.(type) {
	case bool:
		return kind == "bool"
	case int64:
		return kind == "int" || kind == "float" || kind == "ints" && rel != "="
	case float64:
		return kind == "float"
	case string:
		return kind == "string"
	case []int64:
		return kind == "ints" && rel == "="
	case dtype.DType:
		return kind == "dtype"
	}
	return v == Last && (kind == "int" || kind == "ints") // the other words were refused by Parse
}
