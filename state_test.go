package rlx_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/tinymodel"
)

// caches returns a session of the model that keeps a cache.
func caches(t *testing.T, o rlx.Options) *rlx.Session {
	t.Helper()
	return session(t, open(t, artifact(t, nil, tinymodel.Programs(t, "cpu", tinymodel.Cache, tinymodel.Peek)...)), o)
}

// appendRow returns a request that appends one row of v at pos.
func appendRow(t *testing.T, st *rlx.State, v float32, pos int32) rlx.Request {
	t.Helper()
	return rlx.Request{Method: "append", State: st,
		Inputs: map[string]rlx.Tensor{"rows": tensorOf(t, []float32{v, v}, 1, 2), "pos": tensorOf(t, []int32{pos})}}
}

func scalar(t *testing.T, x rlx.Tensor) float32 {
	t.Helper()
	v, err := rlx.Values[float32](x)
	if err != nil || len(v) != 1 {
		t.Fatalf("%v, %v", x, err)
	}
	return v[0]
}

func sumOf(t *testing.T, s *rlx.Session, st *rlx.State) float32 {
	t.Helper()
	r, err := s.Run(t.Context(), rlx.Request{Method: "peek", State: st})
	if err != nil {
		t.Fatal(err)
	}
	return scalar(t, r.Outputs["sum"])
}

func newState(t *testing.T, s *rlx.Session) *rlx.State {
	t.Helper()
	st, err := s.NewState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func TestState(t *testing.T) {
	t.Parallel()
	s := caches(t, rlx.Options{})
	a, b := newState(t, s), newState(t, s)
	for i, want := range []struct{ before, after, runs float32 }{{8, 8 + 2*2.5, 1}, {13, 13 + 2*2.5, 2}} {
		req := appendRow(t, a, 3, int32(i))
		req.Check = true // against the reference, with the state before the run
		r, err := s.Run(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if x := [3]float32{scalar(t, r.Outputs["before"]), scalar(t, r.Outputs["after"]),
			scalar(t, r.Outputs["runs"])}; x != [3]float32{want.before, want.after, want.runs} {
			t.Errorf("run %d: %v; want %v", i, x, want)
		}
	}
	c, err := a.Clone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := a.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, st := range []*rlx.State{a, b, c} {
		if got, want := sumOf(t, s, st), []float32{8, 8, 18}[i]; got != want {
			t.Errorf("state %d: sum %v; want %v", i, got, want)
		}
	}
	cache, err := c.Tensor("cache")
	if err != nil {
		t.Fatal(err)
	}
	x, err := cache.Read(t.Context())
	if v, _ := rlx.Values[float32](x); err != nil || len(v) != 16 || v[0] != 3 || v[3] != 3 || v[4] != 0.5 {
		t.Errorf("cache holds %v, %v", v, err)
	}
	_, err = c.Tensor("cash")
	wantError(t, "a tensor that is not there", err, rlx.ErrUsage)
}

// TestStateFile checks that ImportState reads what Export writes, and refuses other files before it allocates anything.
func TestStateFile(t *testing.T) {
	t.Parallel()
	s := caches(t, rlx.Options{})
	a := newState(t, s)
	if _, err := s.Run(t.Context(), appendRow(t, a, 7, 5)); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := a.Export(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s.safetensors")
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file.Bytes())
	b, err := s.ImportState(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got := sumOf(t, s, b); got != 8+2*6.5 {
		t.Errorf("sum %v", got)
	}
	var again bytes.Buffer
	if err := b.Export(t.Context(), &again); err != nil || !bytes.Equal(again.Bytes(), file.Bytes()) {
		t.Errorf("exports %q after it imported %q, %v", again.Bytes(), file.Bytes(), err)
	}
	for from, to := range map[string]string{`"cache"`: `"cashe"`, `[8,2]`: `[2,8]`, `"F32"`: `"I32"`} {
		edited := bytes.Replace(file.Bytes(), []byte(from), []byte(to), 1)
		write(edited)
		_, err := s.ImportState(t.Context(), path)
		wantError(t, to, err, rlx.ErrDamaged)
		write(signed(edited))
		_, err = s.ImportState(t.Context(), path)
		wantError(t, to+" with its digest", err, rlx.ErrInput)
	}
	for from, to := range map[string]string{`"sha256:`: `"sha256:0`, `"rlx.artifact"`: `"rlx.artifice"`} {
		header := bytes.Replace(file.Bytes()[8:], []byte(from), []byte(to), 1)
		more := len(header) + 8 - file.Len()
		size := binary.LittleEndian.Uint64(file.Bytes()) + uint64(more)
		edited := append(binary.LittleEndian.AppendUint64(nil, size), header...)
		write(edited)
		_, err := s.ImportState(t.Context(), path)
		wantError(t, to, err, rlx.ErrDamaged)
		write(signed(edited))
		_, err = s.ImportState(t.Context(), path)
		wantError(t, to+" with its digest", err, rlx.ErrOtherModel)
	}
	write(file.Bytes()[:file.Len()-1])
	_, err = s.ImportState(t.Context(), path)
	wantError(t, "a short file", err, rlx.ErrInput)
	_, err = s.ImportState(t.Context(), path+"x")
	wantError(t, "no file", err, fs.ErrNotExist)
}

// signed replaces the digest at the end of a state file.
func signed(file []byte) []byte {
	file = slices.Clone(file)
	sum := sha256.Sum256(file[:len(file)-sha256.Size])
	copy(file[len(file)-sha256.Size:], sum[:])
	return file
}

// TestStateDamaged checks that no change of a state file is accepted: every bit flipped, every truncation, and a file
// as older versions wrote it, which has no digest.
func TestStateDamaged(t *testing.T) {
	t.Parallel()
	s := caches(t, rlx.Options{})
	a := newState(t, s)
	if _, err := s.Run(t.Context(), appendRow(t, a, 7, 5)); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := a.Export(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	good, path := file.Bytes(), filepath.Join(t.TempDir(), "s.safetensors")
	refused := func(what string, b []byte, want ...error) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := s.ImportState(t.Context(), path)
		if err == nil {
			st.Close()
		}
		if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }) {
			t.Errorf("%s: %v; want %v", what, err, want)
		}
	}
	header := 8 + int(binary.LittleEndian.Uint64(good))
	for at := range good {
		b, bit := slices.Clone(good), at%8
		b[at] ^= 1 << bit
		want := []error{rlx.ErrDamaged}
		if at < header {
			want = append(want, rlx.ErrInput) // the header is not valid any more
		}
		refused(fmt.Sprintf("bit %d of byte %d", bit, at), b, want...)
		refused(fmt.Sprintf("%d bytes", at), good[:at], rlx.ErrInput)
	}
	refused("a byte more", append(slices.Clone(good), 0), rlx.ErrInput)

	// Without the digest.
	text := regexp.MustCompile(`,"rlx.sha256":\{[^}]*\}`).ReplaceAll(good[8:header], nil)
	old := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	refused("an old file", append(old, good[header:len(good)-sha256.Size]...), rlx.ErrDamaged)
	// Its metadata.
	refused("another model's name", signed(bytes.Replace(good, []byte(`"rlx.artifact"`), []byte(`"rlx.artifacu"`), 1)),
		rlx.ErrOtherModel)
}

// TestStateRefused checks that a run that fails halfway leaves a state that gives errors until Reset. Other states, and
// clones made before, stay valid.
func TestStateRefused(t *testing.T) {
	t.Parallel()
	s := caches(t, rlx.Options{})
	a := newState(t, s)
	before, err := a.Clone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	_, err = s.Run(t.Context(), appendRow(t, a, 1, 8))
	wantError(t, "rows at 8 of 8", err, rlx.ErrInput)
	_, err = s.Run(t.Context(), rlx.Request{Method: "peek", State: a})
	wantError(t, "after that", err, rlx.ErrState)
	wantError(t, "Export", a.Export(t.Context(), new(bytes.Buffer)), rlx.ErrState)
	_, err = a.Clone(t.Context())
	wantError(t, "Clone", err, rlx.ErrState)
	if got := sumOf(t, s, before); got != 8 {
		t.Errorf("the clone has %v", got)
	}
	if err := a.Reset(t.Context()); err != nil || sumOf(t, s, a) != 8 {
		t.Error(err)
	}
	// Bad requests do not touch the state.
	other := caches(t, rlx.Options{})
	for what, c := range map[string]struct {
		r      rlx.Request
		target error
	}{
		"no state":            {appendRow(t, nil, 1, 0), rlx.ErrUsage},
		"of another session":  {appendRow(t, newState(t, other), 1, 0), rlx.ErrUsage},
		"another output":      {rlx.Request{Method: "peek", State: a, Outputs: []string{"mean"}}, rlx.ErrUsage},
		"another output kept": {rlx.Request{Method: "peek", State: a, Keep: []string{"mean"}}, rlx.ErrUsage},
		"an input that is none": {
			rlx.Request{Method: "peek", State: a, Inputs: map[string]rlx.Tensor{"x": tensorOf(t, []int32{1})}},
			rlx.ErrInput},
	} {
		_, err := s.Run(t.Context(), c.r)
		wantError(t, what, err, c.target)
	}
	if got := sumOf(t, s, a); got != 8 {
		t.Errorf("sum %v", got)
	}
	_, err = session(t, tiny(t, negGraph), rlx.Options{}).NewState(t.Context())
	wantError(t, "a model that keeps nothing", err, rlx.ErrUsage)
}

// TestStateMemory checks that the memory of states is reserved and released.
func TestStateMemory(t *testing.T) {
	t.Parallel()
	budget := rlx.NewBudget(64 << 20)
	s := caches(t, rlx.Options{Memory: budget})
	if err := s.Load(t.Context(), "append", "peek"); err != nil {
		t.Fatal(err)
	}
	var list []*rlx.State
	for len(list) < 20 {
		list = append(list, newState(t, s))
	}
	if err := budget.Reserve("rest", 1<<62); !strings.Contains(err.Error(), "state 10.2 kB") {
		t.Error(err)
	}
	for _, st := range list {
		st.Close()
		st.Close()
	}
	if err := budget.Reserve("rest", 1<<62); strings.Contains(err.Error(), "state") {
		t.Error(err)
	}
	_, err := s.Run(t.Context(), rlx.Request{Method: "peek", State: list[0]})
	wantError(t, "a closed state", err, rlx.ErrInput)
}

// TestFeeds checks that an output of a run can be the input of the next without leaving the device.
func TestFeeds(t *testing.T) {
	t.Parallel()
	s := session(t, tiny(t, negGraph), rlx.Options{})
	x := tensorOf(t, []float32{1, -2, 3}, 3)
	r, err := s.Run(
		t.Context(), rlx.Request{Method: "f", Inputs: map[string]rlx.Tensor{"x": x}, Keep: []string{"y"},
			Outputs: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Outputs) != 0 || len(r.Kept) != 1 {
		t.Fatalf("%v and %v", r.Outputs, r.Kept)
	}
	y := r.Kept["y"]
	defer y.Close()
	if r, err = s.Run(
		t.Context(),
		rlx.Request{Method: "f", Feeds: map[string]*rlx.Resident{"x": y}, Check: true, Profile: true}); err != nil {
		t.Fatal(err)
	}
	if v, _ := rlx.Values[float32](r.Outputs["y"]); len(v) != 3 || v[0] != 1 || v[1] != -2 || v[2] != 3 ||
		len(r.Steps) != 1 {
		t.Errorf("%v, %v", v, r.Steps)
	}
	_, err = s.Run(
		t.Context(),
		rlx.Request{Method: "f", Feeds: map[string]*rlx.Resident{"x": y}, Inputs: map[string]rlx.Tensor{"x": x}})
	wantError(t, "given twice", err, rlx.ErrUsage)
	_, err = s.Run(
		t.Context(),
		rlx.Request{Method: "f", Feeds: map[string]*rlx.Resident{"z": y}, Inputs: map[string]rlx.Tensor{"x": x}})
	wantError(t, "fed to nothing", err, rlx.ErrInput)
}

// TestStateTogether uses states of one session from several goroutines.
func TestStateTogether(t *testing.T) {
	t.Parallel()
	s := caches(t, rlx.Options{})
	var wg sync.WaitGroup
	for i := range 4 {
		st := newState(t, s)
		wg.Go(func() {
			for pos := range int32(8) {
				req := appendRow(t, st, float32(i), pos)
				if _, err := s.Run(context.Background(), req); err != nil {
					t.Error(err)
				}
			}
			if got := sumOf(t, s, st); math.Abs(float64(got-float32(16*i))) > 0 {
				t.Errorf("sum %v; want %d", got, 16*i)
			}
		})
	}
	wg.Wait()
}
