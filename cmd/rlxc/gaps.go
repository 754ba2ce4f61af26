package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/compile"
	"github.com/rlx-go/rlx/core/code"
	driver "github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/internal/cli"
)

// reportGaps prints what each target lacks to run the model. It returns an error with code.Untaken if a target lacks
// anything.
func reportGaps(ctx context.Context, env *cli.Env, m *compile.Model) error {
	all, err := m.Gaps(ctx)
	if err != nil {
		return err
	}
	if env.JSON {
		list := []any{}
		for _, g := range all {
			list = append(list, gapsJSON(g))
		}
		err = env.WriteJSON(map[string]any{"architecture": m.Arch, "targets": list})
	} else {
		for i, g := range all {
			if i > 0 {
				fmt.Fprintln(env.Stdout)
			}
			if err = writeGaps(env.Stdout, g); err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	var lacking []string
	for _, g := range all {
		if !g.Empty() {
			lacking = append(lacking, g.Target)
		}
	}
	if lacking != nil {
		return diag.New(code.Untaken, strings.Join(lacking, ", "), "cannot run the model").
			WithHint("the list is on standard output")
	}
	return nil
}

func writeGaps(w io.Writer, g driver.TargetGaps) error {
	var b strings.Builder
	if g.Empty() {
		fmt.Fprintf(&b, "%s lacks nothing\n", g.Target)
	} else {
		var what []string
		if n := len(g.Ops); n > 0 {
			what = append(what, cli.Count(n, "op", "ops"))
		}
		if n := len(g.Types); n > 0 {
			what = append(what, cli.Count(n, "element type", "element types"))
		}
		fmt.Fprintf(&b, "%s lacks %s\n", g.Target, strings.Join(what, " and "))
	}
	for _, t := range g.Types {
		fmt.Fprintf(&b, "\ntype %v: %s, in %s\n", t.Type, countsOfType(t), strings.Join(t.Methods, ", "))
		if hint := typeAdvice(t); hint != "" {
			fmt.Fprintf(&b, "  %s\n", hint)
		}
	}
	for _, o := range g.Ops {
		var nodes []string
		for _, m := range slices.Sorted(maps.Keys(o.Nodes)) {
			nodes = append(nodes, fmt.Sprintf("%s in %s", cli.Count(o.Nodes[m], "node", "nodes"), m))
		}
		fmt.Fprintf(&b, "\nop %s: %s\n", o.Op, strings.Join(nodes, ", "))
		for _, u := range o.Uses {
			fmt.Fprintf(&b, "  on (%s) -> %s: %s, such as %s at %s\n    %s\n",
				u.Operands, u.Results, cli.Count(u.Nodes, "node", "nodes"), u.Example, u.At, u.Why)
		}
		fmt.Fprintf(&b, "  needs           %s\n", o.Rule)
		for _, r := range o.Rewrite {
			lines := rewriteLines(r)
			fmt.Fprintf(&b, "  or, %s:\n", r.Name)
			for _, l := range lines {
				fmt.Fprintf(&b, "                  %s\n", l)
			}
		}
		if o.Others != nil {
			fmt.Fprintf(&b, "  runs on         %s\n", strings.Join(o.Others, ", "))
		}
	}
	if len(g.Lines) > 0 {
		fmt.Fprintf(&b, "\n%s would run everything with these lines in its description, "+
			"whose types and limits replace its own:\n", g.Target)
		for _, l := range g.Lines {
			fmt.Fprintf(&b, "  %s\n", l)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rewriteLines are the lines that a description needs for a rewrite.
func rewriteLines(r driver.Rewrite) (lines []string) {
	for _, t := range r.Types {
		lines = append(lines, fmt.Sprintf("%v among its types", t))
	}
	return append(lines, ruleTexts(r.Rules)...)
}

func ruleTexts(rules []target.Rule) []string {
	lines := []string{}
	for _, r := range rules {
		lines = append(lines, r.String())
	}
	return lines
}

func countsOfType(t driver.TypeGap) string {
	var out []string
	for _, c := range []struct {
		n         int
		one, many string
	}{
		{t.Inputs, "input", "inputs"}, {t.Weights, "weight", "weights"}, {t.States, "state", "states"},
		{t.Values, "result of an op", "results of ops"},
	} {
		if c.n > 0 {
			out = append(out, cli.Count(c.n, c.one, c.many))
		}
	}
	return strings.Join(out, ", ")
}

// typeAdvice says how to do without an element type, or returns "".
func typeAdvice(t driver.TypeGap) string {
	if t.Weights > 0 && (t.Type.IsFloat() || t.Type.IsPacked()) && t.Type != dtype.F32 {
		return "--dtype f32 stores the weights of a checkpoint as f32 instead"
	}
	return ""
}

func gapsJSON(g driver.TargetGaps) map[string]any {
	types, ops := []any{}, []any{}
	for _, t := range g.Types {
		types = append(types, map[string]any{"type": t.Type.String(), "inputs": t.Inputs, "weights": t.Weights,
			"states": t.States, "values": t.Values, "methods": t.Methods})
	}
	for _, o := range g.Ops {
		uses, rewrites := []any{}, []any{}
		for _, u := range o.Uses {
			uses = append(uses, map[string]any{"operands": u.Operands, "results": u.Results, "nodes": u.Nodes,
				"example": u.Example, "at": u.At, "why": u.Why})
		}
		for _, r := range o.Rewrite {
			names := []string{}
			for _, t := range r.Types {
				names = append(names, t.String())
			}
			rewrites = append(rewrites, map[string]any{"how": r.Name, "types": names, "rules": ruleTexts(r.Rules)})
		}
		ops = append(ops, map[string]any{"op": o.Op, "nodes": o.Nodes, "uses": uses, "rule": o.Rule.String(),
			"rewrites": rewrites, "others": append([]string{}, o.Others...)})
	}
	return map[string]any{"target": g.Target, "types": types, "ops": ops, "lines": append([]string{}, g.Lines...)}
}
