package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/cli"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name: "plan", Args: "FILE.rlx [flags]",
		Short: "show the memory plan: arena, peak, reuse, the largest tensors, a picture",
		Examples: []cli.Example{
			{About: "sizes and the largest tensors", Line: "rlxc plan sam.rlx"},
			{About: "a picture of the arena over time",
				Line: "rlxc plan sam.rlx --method encode --target cpu --view html > plan.html"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f programFlags
			var picture cli.Choice
			f.declare(fs)
			fs.ChoiceVar(&picture, "view", "what to print to stdout", "text", "svg", "html")
			top := fs.Int("top", 10, "`N` how many of the largest tensors to list")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if *top < 0 {
					return cli.Usagef("--top", "%d tensors; allowed are 0 and more", *top)
				}
				if env.JSON && picture.Value != "text" {
					return cli.Usagef("--view "+picture.Value, "cannot be combined with --json")
				}
				v, err := f.openOne(ctx, args)
				if err != nil {
					return err
				}
				defer v.Close()
				ps, err := f.choose(v)
				if err != nil {
					return err
				}
				var plans []arena
				for _, p := range ps {
					plans = append(plans, lifetimes(p))
				}
				switch {
				case env.JSON:
					return env.WriteJSON(plansJSON(plans, *top))
				case picture.Value == "svg":
					if len(plans) != 1 {
						return cli.Usagef("--view", "svg shows one program; the artifact has %d", len(plans)).WithHint(
							"choose with --method and --target, or use --view html")
					}
					_, err = io.WriteString(env.Stdout, plans[0].svg())
					return err
				case picture.Value == "html":
					return writeHTML(env.Stdout, plans)
				}
				return plansText(env, plans, *top)
			}
		},
	}
}

// span is the live range of one value in the arena. It includes the live ranges of views of the value and of results
// that overwrite it.
type span struct {
	name, typ    string
	offset, size int64
	first, last  int // steps
}

// arena is a program's plan as live ranges.
type arena struct {
	p           listed
	spans       []span // by first step
	peak, naive int64
}

// lifetimes derives the live ranges from places and steps.
func lifetimes(p listed) arena {
	a := arena{p: p}
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
			a.naive += program.AlignUp(pl.Size) // counted as in plan.Plan
		}
		if pl.Parent >= 0 {
			owner[n.ID] = owner[pl.Parent]
			continue
		}
		owner[n.ID] = len(a.spans)
		a.spans = append(a.spans, span{n.Label(), n.Type.String(), pl.Offset, pl.Size, len(p.Steps), -1})
	}
	touch := func(node, step int) {
		if i := owner[node]; i >= 0 {
			a.spans[i].first, a.spans[i].last = min(a.spans[i].first, step), max(a.spans[i].last, step)
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
	for _, s := range a.spans {
		for i := s.first; i <= s.last; i++ {
			live[i] += program.AlignUp(s.size)
		}
	}
	a.peak = slices.Max(live)
	slices.SortStableFunc(a.spans, func(x, y span) int { return cmp.Compare(x.first, y.first) })
	return a
}

func (a arena) reuse() float64 {
	if a.p.ArenaSize == 0 {
		return 1
	}
	return float64(a.naive) / float64(a.p.ArenaSize)
}

// largest returns the n largest values.
func (a arena) largest(n int) []span {
	s := slices.Clone(a.spans)
	slices.SortStableFunc(s, func(x, y span) int { return cmp.Compare(y.size, x.size) })
	return s[:min(n, len(s))]
}

func stateText(p *program.Program) string {
	if p.StateSize == 0 {
		return ""
	}
	return ", state " + cli.Size(p.StateSize)
}

func plansText(env *cli.Env, plans []arena, top int) error {
	for _, a := range plans {
		fmt.Fprintf(env.Stdout, "%s: arena %s, peak live %s, %s without reuse (%.1fx), %s, io %s%s\n",
			a.p.label(), cli.Size(a.p.ArenaSize), cli.Size(a.peak), cli.Size(a.naive), a.reuse(),
			cli.Count(len(a.p.Steps), "step", "steps"), cli.Size(a.p.IOSize), stateText(a.p.Program))
		if top == 0 {
			continue
		}
		rows := [][]string{{"  largest", "type", "bytes", "offset", "steps"}}
		for _, s := range a.largest(top) {
			rows = append(
				rows, []string{"  " + s.name, s.typ, cli.Size(s.size), fmt.Sprint(s.offset),
					fmt.Sprintf("%d..%d", s.first, s.last)})
		}
		if err := env.Table(rows); err != nil {
			return err
		}
	}
	return nil
}

func plansJSON(plans []arena, top int) any {
	var out []any
	for _, a := range plans {
		var largest []map[string]any
		for _, s := range a.largest(top) {
			largest = append(
				largest, map[string]any{"value": s.name, "type": s.typ, "bytes": s.size, "offset": s.offset,
					"first_step": s.first, "last_step": s.last})
		}
		out = append(out, a.p.json(map[string]any{"arena_bytes": a.p.ArenaSize, "peak_bytes": a.peak,
			"naive_bytes": a.naive, "reuse": a.reuse(), "io_bytes": a.p.IOSize, "state_bytes": a.p.StateSize,
			"steps": len(a.p.Steps), "largest": largest}))
	}
	return out
}
