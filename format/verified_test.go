package format

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
)

// TestGuard checks that a panic in a check refuses the file.
func TestGuard(t *testing.T) {
	if err := guard(func() error { panic("x") }); !errors.Is(err, diag.Internal) {
		t.Error(err)
	}
}

// TestVerifiedWithoutFile checks what only artifacts from Verify have: no file, and here no weights.
func TestVerifiedWithoutFile(t *testing.T) {
	f := forge(t)
	f.weights = nil
	f.c.tensors, f.c.mutable, f.c.splits = nil, nil, nil
	k := slices.IndexFunc(f.c.graphs, func(g rawGraph) bool { return g.method == "peek" }) // has no weights
	f.c.graphs, f.c.plans, f.c.scheds = f.c.graphs[k:k+1], f.c.plans[k:k+1], f.c.scheds[k:k+1]
	var methods []Method
	for _, m := range f.c.meta.Methods {
		if m.Name == "peek" {
			methods = append(methods, m)
		}
	}
	f.c.meta.Methods, f.c.meta.Task = methods, nil
	b := f.file()
	v, err := Verify(bytes.NewReader(b), int64(len(b)), Policy{Weights: Lazy})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.VerifyWeights(0, 0); err != nil {
		t.Error(err)
	}
	if err := v.VerifyWeights(0, 1); !errors.Is(err, code.Verifier(20)) {
		t.Error(err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnchanged changes an open artifact so that its size and the time of its last change stay.
func TestUnchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rlx")
	b := artifactBytes(t)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	v, err := Open(path, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		t.Helper()
		time.Sleep(20 * time.Millisecond) // longer than a tick of the file system's clock
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, st.ModTime(), st.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	write(b)
	if err := v.Unchanged(); err != nil {
		t.Errorf("the same bytes: %v", err)
	}
	b[len(b)-1] ^= 1
	write(b)
	if err := v.Unchanged(); !errors.Is(err, code.ArtifactChanged) {
		t.Errorf("other bytes: %v", err)
	}
}

// TestBadWire checks that a backend refuses a program with values outside their spaces, although it does not know the
// weights.
func TestBadWire(t *testing.T) {
	v, err := verifyBytes(artifactBytes(t))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, p := range v.All() {
		for i, n := range p.Graph.Nodes {
			if n.Op.Name == "param" || n.Op.Tuple {
				continue
			}
			q := *p
			q.Places = slices.Clone(p.Places)
			for _, k := range []int{1, 1 << 20} {
				q.Places[i].Offset = p.Places[i].Offset + int64(k)*(p.ArenaSize+p.IOSize+p.StateSize+program.Align)
				b, err := EncodeProgram(&q)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := DecodeProgram(b); !errors.Is(err, code.Verifier(30)) &&
					!errors.Is(err, code.Verifier(31)) {
					t.Errorf("%s, node %d at %+v: %v", p.Method, i, q.Places[i], err)
				}
				tried++
			}
		}
	}
	t.Logf("%d programs", tried)
}
