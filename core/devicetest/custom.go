package devicetest

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
)

// tested is an op that the suite tests: a registered one, or a custom one that Define added.
type tested struct {
	name  string
	def   *ir.OpDef
	cases func() []ir.Case[any]
}

// defined are the custom ops that Define added.
var defined []tested

// testedOps lists the ops that a program may contain, registered ones first.
func testedOps() (out []tested) {
	for _, def := range ir.Defs() {
		if runnable(def) {
			out = append(out, testedOp(def))
		}
	}
	return append(out, defined...)
}

func testedOp(def *ir.OpDef) tested { return tested{def.Name, def, def.Cases} }

// casesOf returns the cases of an op. Those of op custom include the cases of ops that Define added.
func casesOf(def *ir.OpDef) []ir.Case[any] {
	list := def.Cases()
	for _, d := range defined {
		if d.def == def {
			list = append(list, d.cases()...)
		}
	}
	return list
}

// Define adds the ops of a library to the suite, for backends that have kernels for them. It is called once, before
// the suite runs.
func Define(l *custom.Library) error {
	for _, d := range l.Definitions() {
		cases, err := d.Cases()
		if err != nil {
			return err
		}
		defined = append(defined, tested{d.Name, op.CustomDef, func() []ir.Case[any] { return cases }})
	}
	return nil
}

// undefined returns the names of custom ops that a description claims and that Define has not added.
func undefined(to *target.Description) (names []string) {
	if to == nil {
		return nil
	}
	for _, r := range to.Rules {
		for _, c := range r.If {
			if r.Op != op.CustomDef.Name || c.Attr != "name" {
				continue
			}
			for _, v := range c.Values {
				name := fmt.Sprint(v)
				known := slices.ContainsFunc(defined, func(d tested) bool { return d.name == name })
				if !known && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
