package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// String returns one line per value, with its name, offset, size, interval and parent, and a line with the totals.
func (p Plan) String() string {
	var b strings.Builder
	for i, v := range p.Values {
		b.WriteString(p.line(i))
		if v.Parent != None {
			how := "in"
			if v.InPlace {
				how = "over"
			}
			fmt.Fprintf(&b, " %s %s", how, p.Values[v.Parent].Name)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "arena %d, peak %d, naive %d\n", p.Size, p.Peak, p.Naive)
	return b.String()
}

func (p Plan) line(i int) string {
	v := p.Values[i]
	return fmt.Sprintf("%s @%d +%d steps %d..%d", v.Name, p.Offsets[i], v.Size, v.First, v.Last)
}

// Report summarises a plan. All sizes are in bytes.
type Report struct {
	Arena int64 // size of the block
	Peak  int64 // lower bound for any layout of the same order of steps
	Naive int64 // size without any reuse
	Steps int
	// Largest describes the largest values with their own storage, one per line, at most ten. The largest comes first.
	Largest []string
}

// Reuse returns how many times larger the memory without reuse is than the arena. It is 1 for an empty plan.
func (r Report) Reuse() float64 {
	if r.Arena == 0 {
		return 1
	}
	return float64(r.Naive) / float64(r.Arena)
}

// Report returns a summary of the plan.
func (p Plan) Report() Report {
	r := Report{Arena: p.Size, Peak: p.Peak, Naive: p.Naive}
	var own []int
	for i, v := range p.Values {
		r.Steps = max(r.Steps, v.Last+1)
		if v.Parent == None {
			own = append(own, i)
		}
	}
	slices.SortFunc(own, func(x, y int) int {
		return cmp.Or(cmp.Compare(p.Values[y].Size, p.Values[x].Size), cmp.Compare(x, y))
	})
	for _, i := range own[:min(10, len(own))] {
		r.Largest = append(r.Largest, p.line(i))
	}
	return r
}

// String returns the report as text.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "arena %d bytes (lower bound %d, without reuse %d, reuse %.2fx), %d steps\n", r.Arena, r.Peak,
		r.Naive, r.Reuse(), r.Steps)
	for _, l := range r.Largest {
		b.WriteString("  " + l + "\n")
	}
	return b.String()
}
