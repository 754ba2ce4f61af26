package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
)

// activations are the names of the unary ops that may follow a product within one op; see activation.
var activations []string

// activation makes a unary op one that the act attribute of fused_matmul, linear and mlp may name. It suits functions that are
// defined and continuous everywhere: products are rounded, and near a pole or a step a rounding changes the result altogether.
func activation(def *ir.OpDef) *ir.OpDef {
	activations = append(activations, def.Name)
	return def
}

// Activations lists the ops that an act attribute may name, by name.
func Activations() []string { return slices.Sorted(slices.Values(activations)) }

// ParseActivation reads the value of an act attribute: the name of an activation, followed by its attributes where it has any,
// such as gelu or leaky_relu(slope=0.01). There is one way to write it: what FormatActivation would print differently is an
// error. For "", no activation, def is nil.
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

// FormatActivation prints an activation with its attributes in the form that ParseActivation reads.
func FormatActivation(def *ir.OpDef, attrs any) string {
	if list := def.AttrTexts(attrs); list != nil {
		return def.Name + "(" + strings.Join(list, ",") + ")"
	}
	return def.Name
}

// parseAttrs reads attributes from texts such as slope=0.01.
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

// IsActivation reports a value of the act attribute; see ParseActivation.
func IsActivation(act string) bool { return CheckActivation(act) == nil }

// CheckActivation is the error for what is no value of the act attribute.
func CheckActivation(act string) error {
	_, _, err := ParseActivation(act)
	return err
}

// Activate adds the activation that act names, or nothing for "".
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
