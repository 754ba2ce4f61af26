package plan_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/golden"
)

// TestGolden reads lines "NAME SIZE FIRST..LAST [in|over PARENT [OFFSET]]" and compares the layout.
func TestGolden(t *testing.T) {
	golden.Files(t, "testdata", func(t *testing.T, f *golden.File) string {
		in, _ := f.Section("in")
		values := parse(t, in)
		p := plan.Make(values)
		if err := checkMade(p); err != nil {
			t.Error(err)
		}
		return p.String()
	})
}

func parse(t *testing.T, text string) []plan.Value {
	index := map[string]int{}
	var values []plan.Value
	for line := range strings.Lines(text) {
		v := plan.Value{ID: len(values), Parent: plan.None}
		var how, parent string
		n, _ := fmt.Sscanf(line, "%s %d %d..%d %s %s %d", &v.Name, &v.Size, &v.First, &v.Last, &how, &parent, &v.Offset)
		if n != 4 && n < 6 {
			t.Fatalf("line %q: want NAME SIZE FIRST..LAST [in|over PARENT [OFFSET]]", line)
		}
		if how != "" {
			v.Parent, v.InPlace = index[parent], how == "over"
		}
		index[v.Name] = len(values)
		values = append(values, v)
	}
	return values
}

// accesses derives the steps from the intervals. Each value except views is written at First. Every value is read at
// First+1..Last; the parent of an in-place result is also read at the step that overwrites it.
func accesses(values []plan.Value) (steps []plan.Access, after []int) {
	n := 0
	for _, v := range values {
		n = max(n, v.Last+1)
	}
	steps = make([]plan.Access, n)
	for i, v := range values {
		view := v.Parent != plan.None && !v.InPlace
		if !view {
			steps[v.First].Writes = append(steps[v.First].Writes, i)
		}
		for s := v.First; s <= v.Last; s++ {
			if s > v.First || view {
				steps[s].Reads = append(steps[s].Reads, i)
			}
		}
	}
	return steps, nil
}

// checkMade checks a plan with plan.Check and, independently, by comparing all pairs of values.
func checkMade(p plan.Plan) error {
	steps, after := accesses(p.Values)
	if err := plan.Check(p, nil, steps, after); err != nil {
		return err
	}
	return pairwise(p)
}

// pairwise checks that two values with their own storage share no byte if they are live in the same step.
func pairwise(p plan.Plan) error {
	type span struct{ first, last int }
	live := make([]span, len(p.Values))
	for i, v := range p.Values {
		live[i] = span{v.First, v.Last}
		r, _ := plan.Root(p.Values, i)
		live[r] = span{min(live[r].first, v.First), max(live[r].last, v.Last)}
	}
	for i, v := range p.Values {
		for j := range i {
			w := p.Values[j]
			if v.Parent != plan.None || w.Parent != plan.None {
				continue
			}
			bytes := p.Offsets[i] < p.Offsets[j]+w.Size && p.Offsets[j] < p.Offsets[i]+v.Size
			time := live[i].first <= live[j].last && live[j].first <= live[i].last
			if bytes && time {
				return fmt.Errorf("%s and %s overlap", v.Name, w.Name)
			}
		}
	}
	return nil
}

// TestCheckCatches breaks a good plan in each way that Check must detect.
func TestCheckCatches(t *testing.T) {
	const text = "x 300 0..2\nv 200 1..2 in x 100\ny 300 2..3 over x\nz 256 1..4\n"
	for _, c := range []struct {
		name string
		edit func(p *plan.Plan, steps []plan.Access) []int
		want string
	}{
		{"as made", func(*plan.Plan, []plan.Access) []int { return []int{2, 3} }, ""},
		{"overlap", func(p *plan.Plan, _ []plan.Access) []int { p.Offsets[3] = 256; return nil }, "over its operand v"},
		{"empty inside an operand", func(p *plan.Plan, _ []plan.Access) []int {
			p.Offsets[3], p.Values[3].Size = 256, 0
			return nil
		}, ""},
		{"unaligned", func(p *plan.Plan, _ []plan.Access) []int { p.Offsets[3]--; return nil }, "multiple"},
		{"outside", func(p *plan.Plan, _ []plan.Access) []int { p.Size = 512; return nil }, "outside"},
		{"view elsewhere", func(p *plan.Plan, _ []plan.Access) []int { p.Offsets[1]++; return nil }, "want offset 100"},
		{"view too long", func(p *plan.Plan, _ []plan.Access) []int { p.Values[1].Size = 201; return nil }, "has 300"},
		{"read before written", func(_ *plan.Plan, s []plan.Access) []int { s[0].Reads = []int{3}; return nil },
			"before it is written"},
		{"read after overwritten", func(_ *plan.Plan, s []plan.Access) []int { s[3].Reads = []int{1}; return nil },
			"holds y"},
		{"written twice", func(_ *plan.Plan, s []plan.Access) []int { s[3].Writes = []int{3}; return nil }, "again"},
		{"view written", func(_ *plan.Plan, s []plan.Access) []int { s[3].Writes = []int{1}; return nil }, "view"},
		{"in place without reading", func(_ *plan.Plan, s []plan.Access) []int { s[2].Reads = nil; return nil },
			"does not read"},
		{"in place under a view", func(_ *plan.Plan, s []plan.Access) []int { s[2].Reads = []int{0, 1}; return nil },
			"over its operand v"},
		{"lost at the end", func(*plan.Plan, []plan.Access) []int { return []int{0} }, "holds y"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := plan.Make(parse(t, text))
			steps := []plan.Access{{Writes: []int{0}}, {Reads: []int{1}, Writes: []int{3}},
				{Reads: []int{0}, Writes: []int{2}}, {Reads: []int{2}}, {Reads: []int{3}}}
			after := c.edit(&p, steps)
			err := plan.Check(p, nil, steps, after)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v; want an error with %q", err, c.want)
			}
		})
	}
}

// TestSameTwice checks that equal values give equal plans, even if the lists were allocated differently.
func TestSameTwice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		data := make([]byte, 200)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		a, b := plan.Make(decode(data)), plan.Make(decode(data))
		if a.String() != b.String() {
			t.Fatalf("two plans of the same values:\n%s\n%s", a, b)
		}
	}
}

// decode decodes a list of values from bytes.
func decode(data []byte) []plan.Value {
	var values []plan.Value
	for ; len(data) >= 5 && len(values) < 64; data = data[5:] {
		v := plan.Value{ID: len(values), Name: fmt.Sprint("v", len(values)), Parent: plan.None,
			Size: int64(data[0]) * 37, First: int(data[1] % 32)}
		v.Last = v.First + int(data[2]%16)
		if k := len(values); k > 0 {
			par := int(data[4]) % k
			switch p := values[par]; data[3] % 4 {
			case 1: // a view of part of par; readers need par's content
				v.Parent, v.First, v.Last = par, p.First+1, p.Last
				v.Offset = p.Size / 3
				v.Size = p.Size - v.Offset
				if v.First > v.Last {
					continue
				}
			case 2: // overwrite par, if par has no views or other in-place results
				if p.Parent == plan.None && !hasChild(values, par) && p.Last > p.First {
					v.Parent, v.InPlace, v.Size, v.First = par, true, p.Size, p.Last
					v.Last = v.First + int(data[2]%16)
				}
			}
			if v.Parent != plan.None && !v.InPlace && overwritten(values, par) {
				continue
			}
		}
		values = append(values, v)
	}
	return values
}

func hasChild(values []plan.Value, i int) bool {
	for _, v := range values {
		if v.Parent == i {
			return true
		}
	}
	return false
}

func overwritten(values []plan.Value, i int) bool {
	for {
		for _, v := range values {
			if v.Parent == i && v.InPlace {
				return true
			}
		}
		if values[i].Parent == plan.None {
			return false
		}
		i = values[i].Parent
	}
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte{10, 0, 3, 0, 0, 20, 1, 2, 0, 0, 10, 3, 1, 2, 0, 5, 2, 2, 1, 1})
	f.Add([]byte{255, 0, 31, 0, 0, 1, 0, 1, 0, 0, 200, 9, 9, 1, 0, 200, 9, 9, 2, 0, 0, 4, 4, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := plan.Make(decode(data))
		if err := checkMade(p); err != nil {
			t.Fatalf("%v\n%s", err, p)
		}
		if p.Size < p.Peak || p.Size > p.Naive || p.Size%program.Align != 0 {
			t.Fatalf("arena %d, peak %d, naive %d", p.Size, p.Peak, p.Naive)
		}
	})
}
