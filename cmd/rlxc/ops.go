package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/spec"
)

func opsCommand() *cli.Command {
	return &cli.Command{
		Name: "ops", Args: "[NAME]", Short: "list the ops, or show the page of one",
		Long: "Lists the ops that graphs may have, with their operands. With a name, prints what the op computes, its " +
			"operands and attributes, as in spec/ops.md, and which built-in targets run it.",
		Examples: []cli.Example{
			{About: "all ops", Line: "rlxc ops"},
			{About: "one op", Line: "rlxc ops softmax"},
		},
		Complete: completeOps,
		Setup: func(*cli.FlagSet) cli.Run {
			return func(_ context.Context, env *cli.Env, args []string) error {
				switch len(args) {
				case 0:
					return listOps(env)
				case 1:
					return showOp(env, args[0])
				}
				return cli.Usagef("ops", "takes one op; found %d", len(args))
			}
		},
	}
}

// opJSON is an op in the output of --json.
type opJSON struct {
	Name string `json:"name"`
	// Kind is "primitive", "expanded" (in terms of other ops, where a target has no kernel) or "block" (always
	// expanded).
	Kind     string `json:"kind"`
	Operands string `json:"operands"` // such as "x, w, bias?"
	Doc      string `json:"doc"`
	// Targets has, for each built-in target, its rules for kernels, or one of "expanded", "reference", "no step" and
	// "none".
	Targets map[string][]string `json:"targets"`
	Page    string              `json:"page,omitempty"` // Markdown, for one op
}

func opOf(def *ir.OpDef) opJSON {
	o := opJSON{Name: def.Name, Kind: "primitive", Operands: def.Signature(), Doc: def.Doc,
		Targets: map[string][]string{}}
	switch {
	case def.Block:
		o.Kind = "block"
	case def.CanLower():
		o.Kind = "expanded"
	}
	for _, d := range target.Builtin() {
		how, kernels := d.Support(def)
		if kernels == nil {
			kernels = []string{how}
		}
		o.Targets[d.Name] = kernels
	}
	return o
}

func listOps(env *cli.Env) error {
	list := []opJSON{}
	rows := [][]string{{"OP", "KIND", "OPERANDS", "WHAT IT COMPUTES"}}
	for _, def := range ir.Defs() {
		o := opOf(def)
		list = append(list, o)
		rows = append(rows, []string{o.Name, o.Kind, shortened(o.Operands, 32), shortened(o.Doc, 72)})
	}
	if env.JSON {
		return env.WriteJSON(list)
	}
	return env.Table(rows)
}

// shortened cuts a text between words, so that it has at most n characters.
func shortened(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	cut := string(r[:n-4])
	return cut[:max(strings.LastIndex(cut, " "), 0)] + " ..."
}

func showOp(env *cli.Env, name string) error {
	def, ok := ir.Find(name)
	if !ok {
		var names []string
		for _, d := range ir.Defs() {
			names = append(names, d.Name)
		}
		e := cli.Usagef(name, "no such op")
		if near := cli.Nearest(name, names); near != "" {
			return e.WithHint("did you mean %s?", near)
		}
		return e.WithHint("rlxc ops lists them all")
	}
	o := opOf(def)
	o.Page, _ = spec.Op(name)
	if env.JSON {
		return env.WriteJSON(o)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", o.Name)
	table := [][]string{}
	flush := func() error {
		err := cli.Table(&b, table)
		table = nil
		return err
	}
	for line := range strings.Lines(o.Page) {
		line = strings.TrimSpace(line)
		if cells, ok := tableRow(line); ok {
			if cells != nil {
				table = append(table, cells)
			}
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		b.WriteString(cli.Wrapped(line) + "\n")
	}
	table = append(table, nil) // a blank line before the next table
	targets := [][]string{{"target", "runs"}}
	for _, d := range target.Builtin() {
		for i, rule := range o.Targets[d.Name] {
			targets = append(targets, []string{d.Name, rule})
			if i > 0 {
				targets[len(targets)-1][0] = ""
			}
		}
	}
	table = append(table, targets...)
	if err := flush(); err != nil {
		return err
	}
	_, err := io.WriteString(env.Stdout, b.String())
	return err
}

// tableRow returns the cells of a line of a table in Markdown. cells is nil for the line below the header.
func tableRow(line string) (cells []string, ok bool) {
	if !strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "|-") {
		return nil, false
	}
	if strings.HasPrefix(line, "|-") {
		return nil, true
	}
	const bar = "\x00" // stands for an escaped bar
	for cell := range strings.SplitSeq(strings.Trim(strings.ReplaceAll(line, `\|`, bar), "|"), "|") {
		cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), bar, "|"))
	}
	return slices.Clip(cells), true
}
