package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/values"
)

// diffReport is the result of `rlxrun diff`.
type diffReport struct {
	Got      string           `json:"got"`
	Want     string           `json:"want"`
	Method   string           `json:"method"`
	Sizes    map[string]int64 `json:"sizes,omitempty"`
	Values   int              `json:"values"`   // of the first run
	Compared int              `json:"compared"` // those of Steps that the other run has
	Differ   int              `json:"differ"`   // those of Compared that differ beyond the tolerance
	First    *diffRow         `json:"first,omitempty"`
	Rows     []*diffRow       `json:"rows"`
	// Unwatched describes an output that differs if the steps are not watched, because the backend then runs several
	// steps together. It is empty if no output does.
	Unwatched string `json:"unwatched,omitempty"`
	Bisected  bool   `json:"bisected"`
	// Wrong is the first step of WrongSide that is wrong by itself, or nil.
	Wrong     *values.Wrong `json:"wrong,omitempty"`
	WrongName string        `json:"wrong_name,omitempty"`
	WrongSide string        `json:"wrong_side,omitempty"`
	In        *place        `json:"in,omitempty"`        // the iteration and step, if that step is a loop
	Case      string        `json:"case,omitempty"`      // file of --minimize
	Repeats   *bool         `json:"repeats,omitempty"`   // whether the same backend gets it wrong again from Case
	CaseNote  string        `json:"case_note,omitempty"` // why it does not

	by *side // whose step Wrong is
}

// report sums up the comparison.
func (c *comparison) report() *diffReport {
	r := &diffReport{Got: c.got.name, Want: c.want.name, Method: c.got.method.Name, Sizes: c.got.given.Sizes,
		Values: len(c.rows), Rows: c.rows}
	for _, row := range c.rows {
		if row.Delta == nil {
			continue
		}
		r.Compared++
		if row.Delta.Bad > 0 {
			r.Differ++
			if r.First == nil {
				r.First = row
			}
		}
	}
	return r
}

// unwatched runs the first side once more without looking at the values of steps, as most runs do, and compares the
// outputs with those of the watched run.
func (r *diffReport) unwatched(ctx context.Context, c *comparison) error {
	outputs, err := c.got.plain(ctx)
	if err != nil {
		return err
	}
	for _, row := range c.rows {
		for _, name := range c.got.alias[row.step] {
			watched, _, err := c.spool.Get(row.spool)
			if err != nil {
				return err
			}
			plain := ofModel(outputs[name])
			plain.Shape = watched.Shape // a view of the value, with the same number of elements
			d, err := values.Compare(plain.Array(), watched.Array(), row.tol, c.scale)
			if err == nil && d.Bad > 0 && r.Unwatched == "" {
				r.Unwatched = fmt.Sprintf("output %s differs in a run whose steps are not watched: %v", name, &d)
			}
		}
	}
	return nil
}

// bisect finds the first step that is wrong by itself, in the run of the first side and then in that of the other. It
// does not judge steps whose results agree.
func (r *diffReport) bisect(ctx context.Context, c *comparison) error {
	r.Bisected = true
	agree := map[values.PlanStep]bool{}
	for _, row := range c.rows {
		fine := row.Delta != nil && row.Delta.Over == 0
		was, seen := agree[row.step]
		agree[row.step] = fine && (was || !seen)
	}
	for _, x := range []*side{c.got, c.want} {
		if x.session == nil {
			continue
		}
		w, err := x.judge(ctx, func(s values.PlanStep) bool { return !agree[s] })
		if err != nil {
			return err
		}
		if w != nil {
			r.Wrong, r.by, r.WrongName, r.WrongSide = w, x, w.Label(), x.name
			if w.IsLoop() {
				r.In, _ = x.locate(ctx, w)
			}
			return ctx.Err()
		}
	}
	return nil
}

// maxGrowth is the number of rows of the table of errors.
const maxGrowth = 24

// growth returns the rows that show how the error grows: the first value that differs, those with at least twice the
// error of all values before, and the outputs.
func (r *diffReport) growth() (out []*diffRow) {
	most := 0.0
	for _, row := range r.Rows {
		if row.Delta == nil {
			continue
		}
		e := float64(row.Delta.RMS)
		if row == r.First || row.output || e > 0 && e >= 2*most {
			out = append(out, row)
		}
		most = max(most, e)
	}
	if n := len(out); n > maxGrowth { // the smallest errors matter least
		keep := slices.Clone(out[n-maxGrowth:])
		if r.First != nil && !slices.Contains(keep, r.First) {
			keep[0] = r.First
		}
		out = keep
	}
	return out
}

// print prints the report to stdout.
func (r *diffReport) print(env *cli.Env) error {
	if env.JSON {
		return env.WriteJSON(r)
	}
	sizes := ""
	for name, n := range r.Sizes {
		sizes += fmt.Sprintf(", %s = %d", name, n)
	}
	rows := [][]string{{"got", r.Got}, {"want", r.Want}, {"method", r.Method + sizes},
		{"compared", fmt.Sprintf("%d of %s", r.Compared, cli.Count(r.Values, "value", "values"))}}
	if r.First != nil {
		rows = append(rows, []string{"differ", fmt.Sprint(r.Differ)},
			[]string{"first", r.First.label + ": " + r.First.Delta.String()})
	}
	switch {
	case r.Wrong == nil && r.First == nil && r.Bisected:
		rows = append(rows, []string{"wrong", "no step is wrong by itself"})
	case r.Wrong != nil:
		rows = append(rows, []string{"wrong", r.WrongName + " on " + r.WrongSide + ": " + r.Wrong.String()})
	case r.Bisected:
		rows = append(rows, []string{"wrong", "no step is wrong by itself: small errors add up"})
	}
	if r.In != nil {
		rows = append(rows, []string{"in", r.In.String()})
	}
	if r.Unwatched != "" {
		rows = append(rows, []string{"unwatched", r.Unwatched})
	}
	if r.Case != "" {
		rows = append(rows, []string{"case", r.Case + ": " + r.CaseNote})
	}
	if err := env.Table(rows); err != nil {
		return err
	}
	grows := [][]string{{}, {"STEP", "OP", "NAME", "TYPE", "RMS ERROR", "MAX ERROR", "BEYOND TOLERANCE"}}
	for _, row := range r.growth() {
		d := row.Delta
		grows = append(grows, []string{fmt.Sprint(row.Step), row.Op, row.Name, d.Type,
			fmt.Sprintf("%.2g", float64(d.RMS)), fmt.Sprintf("%.2g", float64(d.Max)),
			strings.TrimSpace(fmt.Sprintf("%d of %d", d.Bad, d.Len))})
	}
	if len(grows) == 2 {
		return nil
	}
	return env.Table(grows)
}

// verdict returns an error if a value differs.
func (r *diffReport) verdict(f *diffFlags) error {
	if r.First == nil && r.Wrong == nil {
		if r.Unwatched != "" {
			return diag.New(code.Differs, r.Method, "%s", r.Unwatched)
		}
		if r.Compared == 0 {
			return diag.New(code.Differs, r.Method, "the runs have no values of the same name to compare")
		}
		return nil
	}
	in := ""
	if r.In != nil {
		in = "; in " + r.In.String()
	}
	if r.Wrong != nil {
		return diag.New(code.Differs, r.WrongName, "%v%s", r.Wrong, in)
	}
	e := diag.New(code.Differs, r.First.label, "%v%s", r.First.Delta, in)
	if !f.bisect {
		e.WithHint("--bisect finds the first step that is wrong by itself")
	}
	return e
}
