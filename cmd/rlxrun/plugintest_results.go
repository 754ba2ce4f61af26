package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/cli"
)

// counts are numbers of checks by their outcome.
type counts struct {
	Passed     int `json:"passed"`
	Failed     int `json:"failed"`
	Skipped    int `json:"skipped"`
	NotClaimed int `json:"not_claimed"`
}

func (c *counts) add(outcome devicetest.Outcome) {
	switch outcome {
	case devicetest.Passed:
		c.Passed++
	case devicetest.NotClaimed:
		c.NotClaimed++
	case devicetest.Skipped:
		c.Skipped++
	default:
		c.Failed++
	}
}

// columns returns the numbers as text.
func (c counts) columns() (out []string) {
	for _, n := range []int{c.Passed, c.Failed, c.Skipped, c.NotClaimed} {
		if n == 0 {
			out = append(out, "-")
		} else {
			out = append(out, fmt.Sprint(n))
		}
	}
	return out
}

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped, %d not claimed", c.Passed, c.Failed, c.Skipped, c.NotClaimed)
}

// tally holds the results for an op or another section of the suite.
type tally struct {
	Part string `json:"part"`
	Name string `json:"name"`
	counts
	Failures []failedCheck  `json:"failures,omitempty"`
	Skips    []skippedCheck `json:"skips,omitempty"`
}

type failedCheck struct {
	Check     string `json:"check"`
	Transport string `json:"transport"`
	Message   string `json:"message"` // for a wrong result: how many elements differ, and the largest difference
}

type skippedCheck struct {
	Check     string `json:"check"`
	Transport string `json:"transport"`
	Reason    string `json:"reason"`
}

// conformance is the result of `plugins test`.
type conformance struct {
	Backend string          `json:"backend"`
	Version string          `json:"version"`
	Path    string          `json:"path"`
	Seed    uint64          `json:"seed"`
	All     bool            `json:"all"`
	Sandbox rlx.Confinement `json:"sandbox"`
	Result  string          `json:"result"` // passed, failed or incomplete
	counts
	Notes    []string           `json:"notes,omitempty"` // about the device, such as that it takes denormals for 0
	Parts    map[string]*counts `json:"parts"`
	Sections []*tally           `json:"sections"`

	order []string // of Parts
}

// Values of conformance.Result.
const (
	resultPassed     = "passed"
	resultFailed     = "failed"
	resultIncomplete = "incomplete" // a check of the protocol was skipped
)

func (c *conformance) add(part, section, check, transport string, outcome devicetest.Outcome, err error) {
	i := slices.IndexFunc(c.Sections, func(t *tally) bool { return t.Name == section })
	if i < 0 {
		i = len(c.Sections)
		c.Sections = append(c.Sections, &tally{Part: part, Name: section})
	}
	t, p := c.Sections[i], c.Parts[part]
	if p == nil {
		p = &counts{}
		c.order = append(c.order, part)
		if c.Parts == nil {
			c.Parts = map[string]*counts{}
		}
		c.Parts[part] = p
	}
	for _, x := range []*counts{&c.counts, p, &t.counts} {
		x.add(outcome)
	}
	switch outcome {
	case devicetest.Failed:
		t.Failures = append(t.Failures, failedCheck{check, transport, err.Error()})
	case devicetest.Skipped:
		t.Skips = append(t.Skips, skippedCheck{check, transport, err.Error()})
	}
}

// note records something about the device once.
func (c *conformance) note(text string) {
	if text != "" && !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}

// unchecked counts the checks of the protocol that were skipped.
func (c *conformance) unchecked() int {
	if p := c.Parts[partProtocol]; p != nil {
		return p.Skipped
	}
	return 0
}

// finish sets the result and returns the error of the command.
func (c *conformance) finish(b found) error {
	switch n := c.unchecked(); {
	case c.Failed > 0:
		c.Result = resultFailed
		return diag.New(code.Conformance, "backend "+b.Name, "%d of %d checks failed", c.Failed, c.Failed+c.Passed).
			WithHint("rlxrun plugins test %s -o OP repeats those of one op", b.argument())
	case n > 0:
		c.Result = resultIncomplete
		return diag.New(code.Unchecked, "backend "+b.Name,
			"has not passed: %d of %d checks of the protocol were skipped", n, c.Parts[partProtocol].Passed+n).
			WithHint("the output names them and the reason")
	}
	c.Result = resultPassed
	return nil
}

// print writes a table of the counts per section, then every failure and skipped check, then the totals.
func (c *conformance) print(env *cli.Env) error {
	head := []string{"PASSED", "FAILED", "SKIPPED", "NOT CLAIMED"}
	rows := [][]string{append([]string{"PART", "NAME"}, head...)}
	unclaimed := []string{}
	for _, t := range c.Sections {
		if t.Passed+t.Failed == 0 && t.Part == string(devicetest.Ops) {
			unclaimed = append(unclaimed, t.Name)
			continue
		}
		rows = append(rows, append([]string{t.Part, t.Name}, t.columns()...))
	}
	if err := env.Table(rows); err != nil {
		return err
	}
	w := env.Stdout
	if len(unclaimed) > 0 {
		fmt.Fprintf(w, "\nnot claimed: %s\n", strings.Join(unclaimed, " "))
	}
	for _, t := range c.Sections {
		for _, x := range t.Failures {
			fmt.Fprintf(w, "\nFAILED %s (%s)\n  %s\n", x.Check, x.Transport,
				strings.ReplaceAll(clipped(x.Message), "\n", "\n  "))
		}
	}
	for _, line := range c.skips() {
		fmt.Fprintf(w, "\nSKIPPED %s\n", line)
	}
	if len(c.order) > 1 {
		fmt.Fprintln(w)
		rows = [][]string{append([]string{"TOTAL"}, head...)}
		for _, part := range c.order {
			rows = append(rows, append([]string{part}, c.Parts[part].columns()...))
		}
		if err := env.Table(rows); err != nil {
			return err
		}
	}
	for _, x := range c.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", x)
	}
	repeat := fmt.Sprintf("--seed %d", c.Seed)
	if c.All {
		repeat = "--full"
	}
	_, err := fmt.Fprintf(w, "\n%s %s: %v (%s)\n", c.Backend, c.Version, c.counts, repeat)
	return err
}

// skips lists the skipped checks by reason: the names, then the reason.
func (c *conformance) skips() (lines []string) {
	var reasons []string
	by := map[string][]string{}
	for _, t := range c.Sections {
		for _, x := range t.Skips {
			if by[x.Reason] == nil {
				reasons = append(reasons, x.Reason)
			}
			if !slices.Contains(by[x.Reason], x.Check) {
				by[x.Reason] = append(by[x.Reason], x.Check)
			}
		}
	}
	for _, r := range reasons {
		lines = append(lines, strings.Join(by[r], " ")+"\n  "+r)
	}
	return lines
}

// clipped shortens a message, which may contain a random graph.
func clipped(s string) string {
	if most := 2000; len(s) > most {
		return s[:most] + " ..."
	}
	return s
}
