package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
)

// activations are what a fused op's act attribute may name; "" is none. Each is the op of that name.
var activations = []string{"", "gelu", "gelu_tanh", "relu", "silu", "sigmoid", "tanh"}

// IsActivation reports a value of the act attribute: the name of an elementwise op, or "" for none.
func IsActivation(act string) bool { return slices.Contains(activations, act) }

func checkActivation(act string) error {
	if !IsActivation(act) {
		return fmt.Errorf("act is %q; want nothing or one of %s", act, strings.Join(activations[1:], ", "))
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
		x.Graph.Fail(checkActivation(act))
		return x
	}
	return x.Graph.Add(def, NoAttrs{}, x)
}
