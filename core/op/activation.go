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

// IsActivation reports a value of the act attribute: the name of an activation, or "" for none.
func IsActivation(act string) bool { return act == "" || slices.Contains(activations, act) }

// CheckActivation is the error for what is no value of the act attribute.
func CheckActivation(act string) error {
	if !IsActivation(act) {
		return fmt.Errorf("act is %q; want nothing or one of %s", act, strings.Join(Activations(), ", "))
	}
	return nil
}

// Activate adds the activation that act names, or nothing for "".
func Activate(x *ir.Node, act string) *ir.Node {
	if act == "" {
		return x
	}
	def, ok := ir.Find(act)
	if !ok || !IsActivation(act) {
		x.Graph.Fail(CheckActivation(act))
		return x
	}
	return x.Graph.Add(def, NoAttrs{}, x)
}
