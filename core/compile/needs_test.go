package compile_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
	generated "github.com/rlx-go/rlx/internal/golden"
	"github.com/rlx-go/rlx/models/arch"
	_ "github.com/rlx-go/rlx/models/llm"
	"github.com/rlx-go/rlx/models/weights"
)

// TestNeeds checks that docs/native-ops.md lists what the demo models need from a backend, and that a backend with
// these rules runs them.
func TestNeeds(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# What a backend needs to run SAM or Llama natively

Made from the programs of the demo models by ` + "`go test ./core/compile -run TestNeeds -update`" + `; do not edit.

This page is for authors of backends ([tutorial](backend-tutorial.md)). For each model there are three lists, as lines of a target description
([target.md](../spec/target.md)):

- *What suffices*: with these rules alone, and weights in f32, the compiler expresses everything else by these ops. No other op can express one of them.
- *Weights in other types*: what comes in addition if the artifact keeps weights in f16 or bf16 or in blocks of few bits. Otherwise ` + "`rlxc --dtype f32`" +
		` converts them.
- *What makes it fast*: what the cpu backend runs as well. Each of these ops takes the place of several steps, and the compiler uses it as soon as the
  description has its rule. Attention and the products matter most.

Numbers are steps of a run. Models of any size need the same; other settings of a family, such as another activation, may need more. For your own model,
` + "`rlxc MODEL --target ./mine.target --gaps`" + ` lists what ` + "`mine`" +
		` lacks. The description may be as short as this:

` + "```" + `
target mine 1
types f32
` + "```" + `
`)
	for _, m := range []struct{ name, about, path, config string }{
		{"SAM", "The demo model `demo/sam-nano.safetensors`.", "../../demo/sam-nano.safetensors", ""},
		{"Llama", "The demo model `demo/llama`. `extend` is the method that generates text.", "../../demo/llama",
			"../../demo/llama/config.json"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", m.name, m.about)
		kept := open(t, m.path)
		f32 := kept
		f32.DType = dtype.F32
		// The types of all programs, and only the rules that their steps need.
		small := stepsOf(compileFor(t, build(t, f32, m.config), f32, builtin(t, target.Portable)))
		enough := small.target("mine")
		b.WriteString("\n### What suffices\n\n")
		small.write(&b, enough.Rules)
		if gaps := gapsOf(t, build(t, f32, m.config), f32, enough); !gaps.Empty() {
			t.Errorf("%s: the list does not suffice; there lack %q", m.name, gaps.Lines)
		}
		compileFor(t, build(t, f32, m.config), f32, enough)

		b.WriteString("\n### Weights in other types\n\n")
		addition := func(what string, s weights.Stored) {
			gaps := gapsOf(t, build(t, s, m.config), s, enough)
			fmt.Fprintf(&b, "%s:\n\n```\n%s\n```\n\n", what, strings.Join(gaps.Lines, "\n"))
			compileFor(t, build(t, s, m.config), s, gaps.Extended)
		}
		for _, d := range []dtype.DType{dtype.F16, dtype.BF16} {
			s := kept
			s.DType = d
			addition(fmt.Sprintf("`--dtype %v`", d), s)
		}
		if m.name == "Llama" {
			s := kept
			s.Packed = weights.Quantize(s.Checkpoint, "q4_0")
			addition("`--quantize q4_0`, likewise for other kinds of blocks", s)
		}

		fast := stepsOf(compileFor(t, build(t, kept, m.config), kept, builtin(t, "cpu")))
		have := map[string]bool{}
		for _, r := range enough.Rules {
			have[r.Op] = true
		}
		b.WriteString("### What makes it fast\n\n")
		fast.write(&b, slices.DeleteFunc(fast.target("mine").Rules, func(r target.Rule) bool { return have[r.Op] }))
	}
	generated.Text(t, "../../docs/native-ops.md", b.String())
}

func open(t *testing.T, path string) weights.Stored {
	t.Helper()
	c, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return weights.Stored{Checkpoint: c}
}

func build(t *testing.T, s weights.Stored, config string) *arch.Model {
	t.Helper()
	family, err := arch.Find("auto", s, s.Path(), "")
	if err != nil {
		t.Fatal(err)
	}
	cfg := arch.Config{Files: func(name string, _ int64) ([]byte, error) {
		return os.ReadFile(filepath.Join(filepath.Dir(config), name))
	}}
	if config != "" {
		if err := cfg.Load(config); err != nil {
			t.Fatal(err)
		}
	}
	m, err := family.Build(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// stored reads the params of a model in the types in which they are stored.
type stored struct {
	weights.Stored
	source map[string]string
}

func paramsOf(m *arch.Model, s weights.Stored) stored {
	p := stored{s, map[string]string{}}
	for _, x := range m.Params {
		p.source[x.Name] = x.Source
	}
	return p
}

func (p stored) Param(name string) (*tensor.Array, error) {
	var b bytes.Buffer
	t, _ := p.Type(p.source[name])
	_, err := p.WriteTo(&b, p.source[name])
	return tensor.Tensor{DType: t.DType, Shape: t.Shape.Eval(nil), Data: b.Bytes()}.Array(), err
}

func compileFor(t *testing.T, m *arch.Model, s weights.Stored, d *target.Description) []*program.Program {
	t.Helper()
	o := compile.Options{Targets: []compile.Target{{Name: d.Name, Takes: d}}, Params: paramsOf(m, s), Layout: layoutOf}
	r, err := compile.Compile(t.Context(), m.Methods, o)
	if err != nil {
		t.Fatal(err)
	}
	return r.Programs
}

func builtin(t *testing.T, name string) *target.Description {
	t.Helper()
	d, ok := target.Find(name)
	if !ok {
		t.Fatalf("no target %s", name)
	}
	return d
}

func gapsOf(t *testing.T, m *arch.Model, s weights.Stored, d *target.Description) compile.TargetGaps {
	t.Helper()
	o := compile.Options{Targets: []compile.Target{{Name: d.Name, Takes: d}}, Params: paramsOf(m, s)}
	list, err := compile.Gaps(t.Context(), m.Methods, o)
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// steps are the steps of programs by op, and the element types of all values.
type steps struct {
	methods []string
	nodes   map[string][]*ir.Node
	count   map[string]map[string]int // by op and method
	types   []dtype.DType
}

func stepsOf(programs []*program.Program) *steps {
	s := &steps{nodes: map[string][]*ir.Node{}, count: map[string]map[string]int{}}
	for _, p := range programs {
		s.methods = append(s.methods, p.Method)
		for _, n := range p.Graph.Nodes {
			for _, t := range n.ResultTypes() {
				s.types = append(s.types, t.DType)
			}
		}
		for _, st := range p.Steps {
			n := p.Graph.Nodes[st.Node]
			if s.count[n.Op.Name] == nil {
				s.count[n.Op.Name] = map[string]int{}
			}
			s.nodes[n.Op.Name] = append(s.nodes[n.Op.Name], n)
			s.count[n.Op.Name][p.Method]++
		}
	}
	return s
}

// target returns a description that takes the steps and hardly more.
func (s *steps) target(name string) *target.Description {
	d := (&target.Description{Name: name, Version: "1"}).With(s.types, 0, 0)
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		r := target.RuleFor(s.nodes[name])
		if name == op.ElementwiseRegionDef.Name { // a backend makes one kernel from any steps that it has
			r.If = append(r.If, target.Condition{Attr: target.Parts, Rel: "=", Values: []any{target.Run}})
		}
		d.Rules = append(d.Rules, r)
	}
	return d.Sort()
}

// write writes a table of rules.
func (s *steps) write(b *strings.Builder, rules []target.Rule) {
	types := strings.Split(s.target("x").String(), "\n")[1]
	line := strings.Repeat("---|", len(s.methods))
	fmt.Fprintf(b, "`%s`\n\n| rule | %s |\n|---|%s\n", types, strings.Join(s.methods, " | "), line)
	for _, r := range rules {
		fmt.Fprintf(b, "| `%s` |", strings.ReplaceAll(r.String(), "|", `\|`))
		for _, m := range s.methods {
			if n := s.count[r.Op][m]; n > 0 {
				fmt.Fprintf(b, " %d |", n)
			} else {
				b.WriteString(" |")
			}
		}
		b.WriteString("\n")
	}
}
