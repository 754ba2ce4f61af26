package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/planpage"
)

// view is one aspect of an artifact that inspect prints.
type view struct {
	name, about string
	text        func(env *cli.Env, v *format.Verified, ps []listed) error
	json        func(v *format.Verified, ps []listed) any
}

// views are in the order of the help text. The first is the default.
var views = []view{
	{"signature", "methods with inputs and outputs, and the task", signatureText, signatureJSON},
	{"graph", "the final graph of each program", graphText, graphJSON},
	{"plan", "the place of every value in memory", placesText, placesJSON},
	{"schedule", "the steps in order, and which ops were rewritten or run by the reference", stepsText, stepsJSON},
	{"weights", "the list of weights", weightsText, weightsJSON},
	{"meta", "producer, sources, configuration, sections", metaText, metaJSON},
}

func viewNames() string {
	var n []string
	for _, v := range views {
		n = append(n, v.name)
	}
	return strings.Join(n, "|")
}

func inspectCommand() *cli.Command {
	long := "Shows one part of an artifact:"
	for _, v := range views {
		long += fmt.Sprintf("\n  %-10s %s", v.name, v.about)
	}
	return &cli.Command{
		Name: "inspect", Args: "FILE.rlx [" + viewNames() + "] [flags]", Short: "show a part of an artifact",
		Long: long,
		Examples: []cli.Example{
			{About: "inputs and outputs", Line: "rlxc inspect sam.rlx"},
			{About: "the graph that the cpu backend runs for decode",
				Line: "rlxc inspect sam.rlx graph --method decode --target cpu"},
		},
		Complete: completeView,
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f programFlags
			f.declare(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if len(args) == 1 {
					args = append(args, views[0].name)
				}
				if len(args) != 2 {
					return cli.Usagef("inspect", "takes an artifact and optionally one of %s; found %d arguments",
						viewNames(), len(args))
				}
				var chosen *view
				for i := range views {
					if views[i].name == args[1] {
						chosen = &views[i]
					}
				}
				if chosen == nil {
					return cli.Usagef("inspect", "%q is not a part of an artifact; allowed are %s", args[1],
						viewNames())
				}
				v, err := f.openOne(ctx, args[:1])
				if err != nil {
					return err
				}
				defer v.Close()
				ps, err := f.choose(v)
				if err != nil {
					return err
				}
				if env.JSON {
					return env.WriteJSON(chosen.json(v, ps))
				}
				return chosen.text(env, v, ps)
			}
		},
	}
}

// programFlags select programs of an artifact.
type programFlags struct {
	reading
	method, target string
}

func (f *programFlags) declare(fs *cli.FlagSet) {
	f.reading.declare(fs)
	fs.StringVar(&f.method, "method", "", "`NAME` only this method")
	fs.StringVar(&f.target, "target", "", "`NAME` only this target")
}

// listed is a program of an artifact and, if the program is a segment, the divided method that it belongs to.
type listed struct {
	*program.Program
	of     *program.Split
	number int // of the segment
}

// listAll returns all programs of an artifact.
func listAll(v *format.Verified) (out []listed) {
	for _, p := range v.Programs() {
		out = append(out, listed{p, program.Whole(p), 0})
	}
	for _, s := range v.Splits() {
		for k, x := range s.Segments {
			out = append(out, listed{x.Program, s, k})
		}
	}
	return out
}

// label names the program for people: "encode for wgpu, segment 2 of 3 on cpu".
func (p listed) label() string {
	text := p.Method + " for " + p.of.Target
	if p.of.InPieces() {
		text += fmt.Sprintf(", segment %d of %d on %s", p.number+1, len(p.of.Segments), p.Target)
	}
	return text
}

// json describes the program for other programs, with the fields in more added.
func (p listed) json(more map[string]any) map[string]any {
	more["method"], more["target"] = p.Method, p.of.Target
	if p.of.InPieces() {
		x := p.of.Segments[p.number]
		more["segment"], more["segments"], more["backend"] = p.number+1, len(p.of.Segments), p.Target
		more["lacked"], more["moved"] = countsOf(x.Lacked), countsOf(x.Moved)
	}
	return more
}

// choose returns the programs that match the flags.
func (f *programFlags) choose(v *format.Verified) ([]listed, error) {
	var out []listed
	var have []string
	for _, p := range listAll(v) {
		if name := p.Method + "/" + p.of.Target; !slices.Contains(have, name) {
			have = append(have, name)
		}
		if (f.method == "" || p.Method == f.method) && (f.target == "" || p.of.Target == f.target) {
			out = append(out, p)
		}
	}
	if out == nil {
		var asked []string
		for flag, value := range map[string]string{"--method ": f.method, "--target ": f.target} {
			if value != "" {
				asked = append(asked, flag+value)
			}
		}
		slices.Sort(asked)
		return nil, cli.Usagef(strings.Join(asked, " "), "the artifact has no such program; it has %s",
			strings.Join(have, ", "))
	}
	return out, nil
}

type ioJSON struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type methodJSON struct {
	Name    string            `json:"name"`
	Sizes   map[string][2]int `json:"sizes"`
	Inputs  []ioJSON          `json:"inputs"`
	Outputs []ioJSON          `json:"outputs"`
	Targets []string          `json:"targets"`
}

// methodsOf returns the signatures of the programs' methods, for JSON.
func methodsOf(v *format.Verified, ps []listed) []methodJSON {
	var out []methodJSON
	for _, sig := range v.Meta().Methods {
		m := methodJSON{Name: sig.Name, Sizes: map[string][2]int{}}
		for _, p := range ps {
			if p.Method == sig.Name && p.number == 0 {
				m.Targets = append(m.Targets, p.of.Target)
			}
		}
		if m.Targets == nil {
			continue
		}
		for _, s := range sig.Syms {
			m.Sizes[s.Name] = [2]int{int(s.Min), int(s.Max)}
		}
		for _, x := range sig.Inputs {
			m.Inputs = append(m.Inputs, ioJSON{x.Name, x.Type.String()})
		}
		for _, x := range sig.Outputs {
			m.Outputs = append(m.Outputs, ioJSON{x.Name, x.Type.String()})
		}
		out = append(out, m)
	}
	return out
}

func signatureJSON(v *format.Verified, ps []listed) any {
	return map[string]any{"model": v.Meta().Model, "methods": methodsOf(v, ps), "precisions": v.Meta().Precisions,
		"task": v.Meta().Task}
}

func signatureText(env *cli.Env, v *format.Verified, ps []listed) error {
	for _, m := range methodsOf(v, ps) {
		fmt.Fprintf(env.Stdout, "%s (%s)\n", m.Name, strings.Join(m.Targets, ", "))
		for name, r := range m.Sizes {
			fmt.Fprintf(env.Stdout, "  %s is %d to %d\n", name, r[0], r[1])
		}
		for _, x := range m.Inputs {
			fmt.Fprintf(env.Stdout, "  in   %-16s %s\n", x.Name, x.Type)
		}
		for _, x := range m.Outputs {
			fmt.Fprintf(env.Stdout, "  out  %-16s %s\n", x.Name, x.Type)
		}
	}
	if t := v.Meta().Task; t != nil {
		fmt.Fprintf(env.Stdout, "task %s: %s\n", t.Kind(), t)
	}
	return nil
}

func graphText(env *cli.Env, _ *format.Verified, ps []listed) error {
	for _, p := range ps {
		fmt.Fprintf(env.Stdout, "# %s\n%s\n", p.label(), p.Graph)
	}
	return nil
}

func graphJSON(_ *format.Verified, ps []listed) any {
	type node struct {
		ID    int            `json:"id"`
		Name  string         `json:"name,omitempty"`
		Op    string         `json:"op"`
		In    []int          `json:"in,omitempty"`
		Names []string       `json:"operands,omitempty"` // of the nodes in In, as the op declares them
		Attrs map[string]any `json:"attrs,omitempty"`
		// empty for ops with several results; the next nodes are these results
		Type string `json:"type,omitempty"`
	}
	var out []any
	for _, p := range ps {
		nodes := []node{}
		for _, n := range p.Graph.Nodes {
			x := node{ID: n.ID, Name: n.Name, Op: n.OpName(), Attrs: map[string]any{}}
			if !n.Op.Tuple {
				x.Type = n.Type.String()
			}
			for k, in := range n.Operands() {
				x.In, x.Names = append(x.In, in.ID), append(x.Names, n.Op.OperandName(k))
			}
			for _, a := range n.Op.Attrs(n.Attrs) {
				x.Attrs[a.Name] = fmt.Sprint(a.Value)
				if own, ok := a.Value.([]ir.Attr); ok {
					x.Attrs[a.Name] = ir.Attr{Value: own}.Text()
				}
			}
			nodes = append(nodes, x)
		}
		outputs := map[string]int{}
		for _, o := range p.Graph.Outputs {
			outputs[o.Name] = o.Node.ID
		}
		out = append(out, p.json(map[string]any{"nodes": nodes, "outputs": outputs}))
	}
	return out
}

func placesText(env *cli.Env, _ *format.Verified, ps []listed) error {
	for _, p := range ps {
		rows := [][]string{{"value", "type", "space", "offset", "bytes", "shares"}}
		for _, n := range p.Graph.Nodes {
			if n.Op.Tuple { // its results have places; the node itself has none
				continue
			}
			pl := p.Places[n.ID]
			shares := ""
			if pl.Parent >= 0 {
				shares = p.Graph.Nodes[pl.Parent].Label()
			}
			rows = append(
				rows, []string{n.Label(), n.Type.String(), pl.Space.String(), fmt.Sprint(pl.Offset),
					fmt.Sprint(pl.Size), shares})
		}
		fmt.Fprintf(env.Stdout, "# %s: arena %d, io %d%s\n", p.label(), p.ArenaSize, p.IOSize, stateBytes(p.Program))
		if err := env.Table(rows); err != nil {
			return err
		}
	}
	return nil
}

// stateBytes returns the end of the line for a program that has a state.
func stateBytes(p *program.Program) string {
	if p.StateSize == 0 {
		return ""
	}
	return fmt.Sprintf(", state %d", p.StateSize)
}

func placesJSON(_ *format.Verified, ps []listed) any {
	type place struct {
		Node   int    `json:"node"`
		Space  string `json:"space"`
		Offset int64  `json:"offset"`
		Size   int64  `json:"size"`
		Parent int    `json:"parent"`
	}
	var out []any
	for _, p := range ps {
		var places []place
		for i, pl := range p.Places {
			if p.Graph.Nodes[i].Op.Tuple {
				continue
			}
			places = append(places, place{i, pl.Space.String(), pl.Offset, pl.Size, pl.Parent})
		}
		out = append(
			out, p.json(
				map[string]any{"arena_bytes": p.ArenaSize, "io_bytes": p.IOSize, "state_bytes": p.StateSize,
					"places": places}))
	}
	return out
}

func stepsText(env *cli.Env, _ *format.Verified, ps []listed) error {
	for _, p := range ps {
		rows := [][]string{{"step", "op", "value", "type", "GFLOP"}}
		for i, s := range p.Steps {
			n := p.Graph.Nodes[s.Node]
			rows = append(
				rows, []string{fmt.Sprint(i), n.OpName(), n.Label(), n.TypeText(),
					fmt.Sprintf("%.3f", float64(planpage.FLOPs(p.Program, p.Graph.Nodes[s.Node]))/1e9)})
		}
		header := p.label()
		if l := p.of.Lowering(); l != "" {
			header += "; " + l
		}
		fmt.Fprintf(env.Stdout, "# %s\n", header)
		if err := env.Table(rows); err != nil {
			return err
		}
	}
	return nil
}

func stepsJSON(_ *format.Verified, ps []listed) any {
	type step struct {
		Node   int    `json:"node"`
		Op     string `json:"op"`
		Reads  []int  `json:"reads"`
		Writes []int  `json:"writes"`
		FLOPs  int64  `json:"flops"`
	}
	var out []any
	for _, p := range ps {
		var steps []step
		for _, s := range p.Steps {
			n := p.Graph.Nodes[s.Node]
			x := step{Node: n.ID, Op: n.OpName(), FLOPs: planpage.FLOPs(p.Program, n)}
			for _, in := range n.Operands() {
				x.Reads = append(x.Reads, in.ID)
			}
			for _, v := range n.Values() {
				x.Writes = append(x.Writes, v.ID)
			}
			steps = append(steps, x)
		}
		out = append(
			out, p.json(
				map[string]any{"steps": steps, "rewritten": countsOf(p.Rewritten), "reference": countsOf(p.Reference)}))
	}
	return out
}

func weightsText(env *cli.Env, v *format.Verified, _ []listed) error {
	rows := [][]string{{"weight", "type", "offset", "bytes", "replaceable"}}
	for _, w := range v.Weights().Tensors() {
		replaceable := "no"
		if w.Mutable {
			replaceable = "yes"
		}
		rows = append(rows,
			[]string{w.Name, w.Type.String(), fmt.Sprint(w.Offset), fmt.Sprint(w.Size), replaceable})
	}
	return env.Table(rows)
}

func weightsJSON(v *format.Verified, _ []listed) any {
	type weight struct {
		Name   string `json:"name"`
		Type   string `json:"type"`
		Offset int64  `json:"offset"`
		Size   int64  `json:"size"`
		// Replaceable is set if a session may give the weight other values.
		Replaceable bool `json:"replaceable"`
	}
	out := []weight{}
	for _, w := range v.Weights().Tensors() {
		out = append(out, weight{w.Name, w.Type.String(), w.Offset, w.Size, w.Mutable})
	}
	return out
}

func metaText(env *cli.Env, v *format.Verified, _ []listed) error {
	m := v.Meta()
	rows := [][]string{
		{"producer", m.Producer.Name + " " + m.Producer.Version}, {"model", m.Model}, {"opset", fmt.Sprint(m.Opset)},
		{"precisions", strings.Join(m.Precisions, ", ")}, {"bytes", fmt.Sprint(v.Size())}, {"root", v.Identity()},
	}
	for _, s := range m.Sources {
		rows = append(
			rows, []string{"source",
				fmt.Sprintf("%s, %d bytes, sha256:%s", s.Name, s.Size, hex.EncodeToString(s.SHA256[:]))})
	}
	for _, p := range m.Pairs {
		rows = append(rows, []string{p.Key, p.Value})
	}
	for _, s := range v.Sections() {
		rows = append(rows, []string{"section " + s.Kind.String(), fmt.Sprintf("%d bytes at %d", s.Size, s.Offset)})
	}
	return env.Table(rows)
}

func metaJSON(v *format.Verified, _ []listed) any {
	m := v.Meta()
	var sources, sections []map[string]any
	for _, s := range m.Sources {
		sources = append(
			sources, map[string]any{"name": s.Name, "size": s.Size, "sha256": hex.EncodeToString(s.SHA256[:])})
	}
	for _, s := range v.Sections() {
		sections = append(sections, map[string]any{"kind": s.Kind.String(), "offset": s.Offset, "size": s.Size})
	}
	strs := map[string]string{}
	for _, p := range m.Pairs {
		strs[p.Key] = p.Value
	}
	return map[string]any{"producer": m.Producer.Name, "producer_version": m.Producer.Version, "model": m.Model,
		"opset": m.Opset, "precisions": m.Precisions,
		"bytes": v.Size(), "root": v.Identity(), "sources": sources, "strings": strs, "sections": sections}
}
