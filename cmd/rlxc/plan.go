package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/planpage"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name: "plan", Args: "FILE.rlx [flags]",
		Short: "show the memory plan: arena, peak, reuse, the largest tensors, a picture",
		Examples: []cli.Example{
			{About: "sizes and the largest tensors", Line: "rlxc plan sam.rlx"},
			{About: "a page with memory over time, steps, layers and their cost, for all targets",
				Line: "rlxc plan sam.rlx --view html > plan.html"},
			{About: "a picture of the arena over time",
				Line: "rlxc plan sam.rlx --method encode --target cpu --view svg > plan.svg"},
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
					return writePage(env.Stdout, filepath.Base(args[0]), ps)
				}
				return plansText(env, plans, *top)
			}
		},
	}
}

// arena is a program's plan as live ranges.
type arena struct {
	p           listed
	spans       []planpage.Span // by first step
	peak, naive int64
}

func lifetimes(p listed) arena {
	a := arena{p: p}
	a.spans, a.peak, a.naive = planpage.Lifetimes(p.Program)
	return a
}

// writePage writes the programs as a page.
func writePage(w io.Writer, title string, ps []listed) error {
	var list []*planpage.Program
	for _, p := range ps {
		list = append(list, planpage.Of(p.Program, p.label(), p.Method, func(op string) bool {
			return slices.ContainsFunc(p.Reference, func(c program.OpCount) bool { return c.Op == op })
		}))
	}
	return planpage.Write(w, title, list)
}

func (a arena) reuse() float64 {
	if a.p.ArenaSize == 0 {
		return 1
	}
	return float64(a.naive) / float64(a.p.ArenaSize)
}

// largest returns the n largest values.
func (a arena) largest(n int) []planpage.Span {
	s := slices.Clone(a.spans)
	slices.SortStableFunc(s, func(x, y planpage.Span) int { return cmp.Compare(y.Size, x.Size) })
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
				rows, []string{"  " + s.Name, s.Type, cli.Size(s.Size), fmt.Sprint(s.Offset),
					fmt.Sprintf("%d..%d", s.First, s.Last)})
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
				largest, map[string]any{"value": s.Name, "type": s.Type, "bytes": s.Size, "offset": s.Offset,
					"first_step": s.First, "last_step": s.Last})
		}
		out = append(out, a.p.json(map[string]any{"arena_bytes": a.p.ArenaSize, "peak_bytes": a.peak,
			"naive_bytes": a.naive, "reuse": a.reuse(), "io_bytes": a.p.IOSize, "state_bytes": a.p.StateSize,
			"steps": len(a.p.Steps), "largest": largest}))
	}
	return out
}
