package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
)

// activations are the names of the unary ops that may follow a product within an op; see activation.
var activations []string

// activation allows the act attributes of fused_matmul, fused convolutions, linear and mlp to name a unary op. The
// function must be defined and continuous everywhere: products are rounded, and near a pole or a step a rounding error
// changes the result completely.
func activation(def *ir.OpDef) *ir.OpDef {
	activations = append(activations, def.Name)
	return def
}

// Activations returns the names of the ops that an act attribute may name, sorted.
func Activations() []string { return slices.Sorted(slices.Values(activations)) }

// ParseActivation parses the value of an act attribute: the name of an activation, followed by its attributes if it has
// any, such as gelu or leaky_relu(slope=0.01). Each value has only one form. It returns an error for text that
// FormatActivation would print differently. For "", which means no activation, def is nil.
func ParseActivation(act string) (def *ir.OpDef, attrs any, err error) {
	if act == "" {
		return nil, nil, nil
	}
	name, list, ok := strings.Cut(act, "(")
	if !slices.Contains(activations, name) {
		return nil, nil, fmt.Errorf("act is %q; want nothing or one of %s", act, strings.Join(Activations(), ", "))
	}
	def, _ = ir.Find(name)
	var texts []string
	if ok {
		texts = strings.Split(strings.TrimSuffix(list, ")"), ",")
	}
	if attrs, err = parseAttrs(def, texts); err == nil {
		_, err = def.Infer(attrs, []ir.Type{f32()}, ir.Type{}, nil)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("act is %q: %w", act, err)
	}
	if canon := FormatActivation(def, attrs); canon != act {
		return nil, nil, fmt.Errorf("act is %q; want it written as %q", act, canon)
	}
	return def, attrs, nil
}

// FormatActivation returns an activation with its attributes as text, which ParseActivation parses.
func FormatActivation(def *ir.OpDef, attrs any) string {
	if list := def.AttrTexts(attrs); list != nil {
		return def.Name + "(" + strings.Join(list, ",") + ")"
	}
	return def.Name
}

// parseAttrs parses attributes such as slope=0.01.
func parseAttrs(def *ir.OpDef, texts []string) (any, error) {
	var list []ir.Attr
	for _, s := range texts {
		name, value, _ := strings.Cut(s, "=")
		v, err := ir.ParseValue(value)
		if err != nil {
			return nil, fmt.Errorf("attribute %q: %w", s, err)
		}
		list = append(list, ir.Attr{Name: name, Value: v})
	}
	return def.MakeAttrs(list)
}

// IsActivation reports whether act is a valid act attribute; see ParseActivation.
func IsActivation(act string) bool { return CheckActivation(act) == nil }

// CheckActivation returns an error unless act is a valid act attribute.
func CheckActivation(act string) error {
	_, _, err := ParseActivation(act)
	return err
}

// Activate adds the activation that act names. It returns x for "".
func Activate(x *ir.Node, act string) *ir.Node {
	def, attrs, err := ParseActivation(act)
	switch {
	case err != nil:
		x.Graph.Fail(err)
		return x
	case def == nil:
		return x
	}
	return x.Graph.Add(def, attrs, x)
}
