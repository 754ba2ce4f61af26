package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	driver "github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/cli"
)

// dumpSet collects the graphs that --dump requests. Several phases may have the same path; their texts are appended in
// the order in which they are made.
type dumpSet struct {
	paths map[string]string           // phase -> path
	text  map[string]*strings.Builder // path -> text
	order []string
}

func parseDumps(args []string, stopAfter string) (*dumpSet, error) {
	d := &dumpSet{paths: map[string]string{}, text: map[string]*strings.Builder{}}
	known := phases()
	if stopAfter != "" && !slices.Contains(pass.Names(), stopAfter) {
		return nil,
			cli.Usagef("--stop-after", "unknown pass %q; known are %s", stopAfter, strings.Join(pass.Names(), ", "))
	}
	for _, a := range args {
		phase, path, ok := strings.Cut(a, "=")
		if !ok || path == "" {
			return nil, cli.Usagef("--dump", "%q; want PHASE=PATH", a)
		}
		if !slices.Contains(known, phase) {
			return nil, cli.Usagef("--dump", "unknown phase %q; known are %s", phase, strings.Join(known, ", "))
		}
		if stopAfter != "" && slices.Index(known, phase) > slices.Index(known, stopAfter) {
			return nil, cli.Usagef("--dump "+a, "comes after --stop-after %s, so it is never reached", stopAfter)
		}
		d.paths[phase] = path
		if d.text[path] == nil {
			d.text[path] = &strings.Builder{}
			d.order = append(d.order, path)
		}
	}
	return d, nil
}

func (d *dumpSet) graph(method, target, phase string, g *ir.Graph) {
	if path, ok := d.paths[phase]; ok {
		when := "after " + phase
		if phase == "in" {
			when = "as the model wrote it"
		}
		fmt.Fprintf(d.text[path], "# %s for %s, %s\n%s\n", method, target, when, g)
	}
}

// flush writes the collected graphs.
func (d *dumpSet) flush(ctx context.Context, env *cli.Env) error {
	for _, path := range d.order {
		if err := writeText(ctx, env, path, d.text[path].String()); err != nil {
			return err
		}
	}
	return nil
}

func writeText(ctx context.Context, env *cli.Env, path, text string) error {
	if path == "-" {
		_, err := io.WriteString(env.Stdout, text)
		return err
	}
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// writeReport lists every fusion that was made or missed.
func writeReport(ctx context.Context, env *cli.Env, path string, reports []driver.Report) error {
	var b strings.Builder
	for _, r := range reports {
		for k, x := range r.Segments {
			fmt.Fprintf(&b, "# %s for %s%s\n", r.Method, r.Target, segmentText(r, k))
			for _, e := range x.Passes.Sites {
				state := "made"
				if e.Miss != "" {
					state = "missed: " + e.Miss
				}
				fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", e.Pass, e.Rule, e.Node, state)
			}
			for _, c := range x.Passes.Reference {
				fmt.Fprintf(
					&b, "reference\t%s\t%s\tthe target has no kernel for it or for the ops that it expands to\n", c.Op,
					cli.Count(c.Count, "node", "nodes"))
			}
			if r.Split == nil { // compilation was stopped earlier
				continue
			}
			s := r.Split.Segments[k]
			for _, c := range s.Lacked {
				fmt.Fprintf(&b, "elsewhere\t%s\t%s\ton %s: %s lacks it\n", c.Op, cli.Count(c.Count, "node", "nodes"),
					s.Target, r.Target)
			}
			for _, c := range s.Moved {
				fmt.Fprintf(&b, "elsewhere\t%s\t%s\ton %s, between two ops that %s lacks: that saves copies\n", c.Op,
					cli.Count(c.Count, "node", "nodes"), s.Target, r.Target)
			}
			for _, c := range r.Split.Crossings() {
				if c.To == k {
					fmt.Fprintf(&b, "crossing\t%s\t%v\tfrom segment %d to %d: %s\n", c.Name, c.Type, c.From.Segment+1,
						k+1, cli.Size(s.Graph.Syms.MaxBytes(c.Type)))
				}
			}
		}
	}
	return writeText(ctx, env, path, b.String())
}

// segmentText names a segment in a report. It is empty for a method that is not divided.
func segmentText(r driver.Report, k int) string {
	if len(r.Segments) == 1 && r.Segments[0].Target == r.Target {
		return ""
	}
	return fmt.Sprintf(", segment %d of %d on %s", k+1, len(r.Segments), r.Segments[k].Target)
}
