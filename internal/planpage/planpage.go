// Package planpage writes the plan of compiled programs as a page: one HTML file that needs nothing else. It shows the
// memory over time, the steps with their cost, the layers of the graph, and a roofline.
package planpage

import (
	"cmp"
	"embed"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

//go:embed static
var static embed.FS

// A Program is a program of an artifact.
type Program struct {
	Label  string `json:"label"`            // "encode for cpu"
	Method string `json:"method"`           // programs of the same method are shown beside each other
	Device string `json:"device,omitempty"` // where it was measured
	Arena  int64  `json:"arena"`            // bytes
	Peak   int64  `json:"peak"`             // most bytes of values that are alive at a time
	Naive  int64  `json:"naive"`            // bytes of all values together
	Runs   int    `json:"runs"`             // over which Seconds are means; 0 if it was not measured
	Steps  []Step `json:"steps"`
	Spans  []Span `json:"spans"`
}

// A Step is a step of a program.
type Step struct {
	Op        string  `json:"op"`
	Name      string  `json:"name"` // of its first result
	Type      string  `json:"type"`
	FLOPs     int64   `json:"flops"` // of the run; without a run, at the upper bounds of the sizes
	Bytes     int64   `json:"bytes"` // of operands and results, each once
	Reference bool    `json:"reference,omitempty"`
	Seconds   float64 `json:"s,omitempty"`
	Reads     []int   `json:"reads"` // steps that compute its operands
}

// A Span is the live range of a value in the arena. It includes the live ranges of views of the value and of results
// that overwrite it.
type Span struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
	First  int    `json:"first"` // steps
	Last   int    `json:"last"`
}

// Of describes a program. reference reports whether the slow reference runs an op.
func Of(p *program.Program, label, method string, reference func(op string) bool) *Program {
	out := &Program{Label: label, Method: method, Arena: p.ArenaSize}
	out.Spans, out.Peak, out.Naive = Lifetimes(p)
	maker := map[*ir.Node]int{}
	for i, s := range p.Steps {
		n := p.Graph.Nodes[s.Node]
		step := Step{Op: n.OpName(), Name: n.Values()[0].Label(), Type: n.Values()[0].Type.String(),
			FLOPs: FLOPs(p, n), Reference: reference(n.OpName()), Reads: []int{}}
		for _, v := range n.Values() {
			maker[v] = i
			step.Bytes += p.Graph.Syms.MaxBytes(v.Type)
		}
		for _, x := range n.Operands() {
			step.Bytes += p.Graph.Syms.MaxBytes(x.Type)
			if by, ok := maker[x.Source()]; ok && by != i && !slices.Contains(step.Reads, by) {
				step.Reads = append(step.Reads, by)
			}
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}

// FLOPs returns the FLOPs of a node at the symbols' upper bounds.
func FLOPs(p *program.Program, n *ir.Node) int64 {
	in, out := n.InTypes(), slices.Clone(n.ResultTypes())
	for _, types := range [][]ir.Type{in, out} {
		for i := range types {
			types[i] = p.Graph.Syms.AtMost(types[i])
		}
	}
	return n.Op.FLOPs(n.Attrs, in, out...)
}

// Lifetimes derives the live ranges of a program's values from places and steps, sorted by their first step. peak is
// the most bytes of values that are alive at a time, naive the bytes of all values together.
func Lifetimes(p *program.Program) (spans []Span, peak, naive int64) {
	owner := make([]int, len(p.Graph.Nodes)) // node -> index of its span, or -1
	for i := range owner {
		owner[i] = -1
	}
	for _, n := range p.Graph.Nodes {
		pl := p.Places[n.ID]
		if pl.Space != program.Arena || n.Op.Tuple {
			continue
		}
		if _, view := n.View(); !view {
			naive += program.AlignUp(pl.Size) // counted as in plan.Plan
		}
		if pl.Parent >= 0 {
			owner[n.ID] = owner[pl.Parent]
			continue
		}
		owner[n.ID] = len(spans)
		spans = append(spans, Span{n.Label(), n.Type.String(), pl.Offset, pl.Size, len(p.Steps), -1})
	}
	touch := func(node, step int) {
		if i := owner[node]; i >= 0 {
			spans[i].First, spans[i].Last = min(spans[i].First, step), max(spans[i].Last, step)
		}
	}
	for i, s := range p.Steps {
		for _, v := range p.Graph.Nodes[s.Node].Values() {
			touch(v.ID, i)
		}
		for _, x := range p.Graph.Nodes[s.Node].Operands() {
			touch(x.ID, i)
		}
	}
	live := make([]int64, len(p.Steps)+1)
	for _, s := range spans {
		for i := s.First; i <= s.Last; i++ {
			live[i] += program.AlignUp(s.Size)
		}
	}
	slices.SortStableFunc(spans, func(x, y Span) int { return cmp.Compare(x.First, y.First) })
	return spans, slices.Max(live), naive
}

// Write writes the page. Of the programs in it, the page shows two beside each other on demand.
func Write(w io.Writer, title string, programs []*Program) error {
	data, err := json.Marshal(map[string]any{"title": title, "programs": programs}) // <, > and & are escaped
	if err != nil {
		return err
	}
	read := func(name string) string {
		b, err := static.ReadFile("static/" + name)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return string(b)
	}
	_, err = strings.NewReplacer("/*CSS*/", read("plan.css"), "/*JS*/", read("plan.js"), "{/*DATA*/}", string(data)).
		WriteString(w, read("plan.html"))
	return err
}
