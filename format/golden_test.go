package format

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

var update = flag.Bool(
	"update", false, "write spec/testdata anew: only before a release, for files are never to stop loading")

const specDir = "../spec/"

// tinyText is the graph of the artifact that spec/format.md shows byte by byte.
const tinyText = "graph f\nsym N = 1..2\nx = input : f32[N,4]\ny = neg x : f32[N,4]\nreturn y=y\n"

func goldenArtifacts(t *testing.T) map[string]func() (Artifact, []Weight) {
	return map[string]func() (Artifact, []Weight){
		"v1.0-loop.rlx": func() (Artifact, []Weight) { return loopArtifact(t) },
		"v1.0-mlp.rlx":  func() (Artifact, []Weight) { return testArtifact(t) },
		"v1.0-split.rlx": func() (Artifact, []Weight) {
			dir, err := Layout(testWeights())
			if err != nil {
				t.Fatal(err)
			}
			s, m := chain(t, dir)
			return Artifact{Meta: Meta{Model: "split", Producer: Producer{"rlxc", "0"}, Methods: []Method{m}},
				Splits: []*program.Split{s}}, testWeights()
		},
		"v1.0-tiny.rlx": func() (Artifact, []Weight) {
			dir, _ := Layout(nil)
			return Artifact{Meta: Meta{Model: "tiny", Producer: Producer{"rlxc", "0"}},
				Programs: []*program.Program{build(t, tinyText, "portable", dir)}}, nil
		},
	}
}

// TestGolden checks that artifacts of every released version stay readable, mean the same, and are written again as the
// same bytes.
func TestGolden(t *testing.T) {
	if *update {
		for name, make := range goldenArtifacts(t) {
			a, weights := make()
			if _, err := Write(context.Background(), specDir+"testdata/"+name, a, weights); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob(specDir + "testdata/*.rlx")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d golden artifacts (%v)", len(files), err)
	}
	for _, file := range files {
		v, err := Open(file, Policy{})
		if err != nil {
			t.Errorf("a released artifact no longer loads: %v", err)
			continue
		}
		defer v.Close()
		checkAccepted(t, v.All())
		text, txt := describe(t, v), strings.TrimSuffix(file, ".rlx")+".txt"
		if *update {
			if err := os.WriteFile(txt, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(txt); err != nil || string(want) != text {
			t.Errorf("%s: has another meaning than %s says (%v):\n%s", file, txt, err, text)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		base, _ := v.WeightsSection()
		for _, x := range v.Weights().Tensors() { // so that running the vectors means something
			a := tensor.Tensor{DType: x.Type.DType, Shape: x.Type.Shape.Eval(nil),
				Data: b[base+x.Offset:][:x.Size]}.Array()
			if slices.ContainsFunc(a.Floats, func(w float64) bool { return !(math.Abs(w) <= 4) }) ||
				slices.Max(a.Floats) <= 0 {
				t.Errorf("%s: weight %s lies from %v to %v", file, x.Name, slices.Min(a.Floats), slices.Max(a.Floats))
			}
		}
		if again := rewrite(t, v, b); !bytes.Equal(again, b) {
			t.Errorf("%s: written again it differs at byte %d", file, firstDifference(again, b))
		}
	}
}

// rewrite writes the artifact v again, with the weights of b.
func rewrite(t *testing.T, v *Verified, b []byte) []byte {
	t.Helper()
	base, _ := v.WeightsSection()
	var weights []Weight
	for _, x := range v.Weights().Tensors() {
		weights = append(weights, Weight{Name: x.Name, Type: x.Type, Write: func(w io.Writer) error {
			_, err := w.Write(b[base+x.Offset:][:x.Size])
			return err
		}})
	}
	path := filepath.Join(t.TempDir(), "again.rlx")
	if _, err := Write(context.Background(), path,
		Artifact{Meta: *v.Meta(), Programs: v.Programs(), Splits: v.Splits()}, weights); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// describe prints the complete contents of an artifact, for comparison.
func describe(t *testing.T, v *Verified) string {
	t.Helper()
	var b strings.Builder
	major, minor := v.Version()
	fmt.Fprintf(&b, "%s\nversion %d.%d, %d bytes\n", v.Identity(), major, minor, v.Size())
	for _, s := range v.Sections() {
		fmt.Fprintf(&b, "section %v at %d, %d bytes, %d items\n", s.Kind, s.Offset, s.Size, s.Items)
	}
	m := v.Meta()
	fmt.Fprintf(&b, "model %q, architecture %q, opset %d, by %s %s, precisions %v\n", m.Model, m.Architecture, m.Opset,
		m.Producer.Name, m.Producer.Version, m.Precisions)
	for _, s := range m.Sources {
		fmt.Fprintf(&b, "source %s, %d bytes, %x\n", s.Name, s.Size, s.SHA256)
	}
	for _, p := range m.Pairs {
		fmt.Fprintf(&b, "%s = %s\n", p.Key, p.Value)
	}
	if m.Task != nil {
		fmt.Fprintf(&b, "%s %+v\n", m.Task.Kind(), reflect.ValueOf(m.Task).Elem())
	}
	for _, x := range v.Weights().Tensors() {
		fmt.Fprintf(&b, "weight %s %v at %d, %d bytes\n", x.Name, x.Type, x.Offset, x.Size)
	}
	for _, x := range m.Methods {
		fmt.Fprintf(&b, "method %s %v %v -> %v\n", x.Name, x.Syms, x.Inputs, x.Outputs)
	}
	for _, s := range v.Splits() {
		fmt.Fprintf(&b, "split %s for %s, outputs from %v\n", s.Method, s.Target, s.Outputs)
		for i, x := range s.Segments {
			fmt.Fprintf(&b, "segment %d for %s, inputs from %v, lacked %v, moved %v\n", i, x.Target, x.Inputs, x.Lacked,
				x.Moved)
		}
	}
	for _, p := range v.All() {
		fmt.Fprintf(&b, "\nprogram %s for %s, arena %d, io %d\n%v", p.Method, p.Target, p.ArenaSize, p.IOSize, p.Graph)
		describePlan(&b, p)
		for _, q := range p.Nested() {
			fmt.Fprintf(&b, "body %s, arena %d, io %d\n", q.Graph.Name, q.ArenaSize, q.IOSize)
			describePlan(&b, q)
		}
	}
	return b.String()
}

// describePlan prints the places, loops and steps of a program.
func describePlan(w io.Writer, p *program.Program) {
	for i, x := range p.Places {
		fmt.Fprintf(w, "place %d: %v %d +%d", i, x.Space, x.Offset, x.Size)
		if x.Parent >= 0 {
			fmt.Fprintf(w, " of %d", x.Parent)
		}
		fmt.Fprintln(w)
	}
	for _, l := range p.Loops {
		fmt.Fprintf(w, "loop %d at %d\n", l.Node, l.Offset)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(w, "step %d\n", s.Node)
	}
}

// TestSpecShowsTheFile checks that the dump in the specification equals the file, byte for byte.
func TestSpecShowsTheFile(t *testing.T) {
	b, err := os.ReadFile(specDir + "testdata/v1.0-tiny.rlx")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(specDir + "format.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "```\nheader\n")
	_, after, ok2 := strings.Cut(rest, "```\n")
	if !ok || !ok2 {
		t.Fatal("spec/format.md has no dump")
	}
	want := before + "```\n" + annotate(b) + "```\n" + after
	if want == string(text) {
		return
	}
	if *update {
		if err := os.WriteFile(specDir+"format.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	i := firstDifference([]byte(want), text)
	t.Errorf("the dump differs from the file (run with -update before a release): it has\n%s\nwant\n%s",
		string(text)[max(i-60, 0):i+60], want[max(i-60, 0):i+60])
}

// TestSpecListsChecks checks that every check has an explanation, and that the specification lists its code.
func TestSpecListsChecks(t *testing.T) {
	text, err := os.ReadFile(specDir + "format.md")
	if err != nil {
		t.Fatal(err)
	}
	for k := 1; k <= 46; k++ {
		if want := fmt.Sprintf("| %d | RLX%d | ", k, 4000+k); string(code.Verifier(k)) != fmt.Sprintf(
			"RLX%d", 4000+k) || !strings.Contains(string(text), want) {
			t.Errorf("spec/format.md has no row %q", want)
		}
	}
}
