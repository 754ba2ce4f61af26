package inference

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
)

// samFixture serves the demo SAM. before is called before every run.
func samFixture(t *testing.T, l Limits, before func(rlx.Request) error) (s *Service, direct *rlx.Session) {
	t.Helper()
	direct = rlxtest.Session(t, rlxtest.Open(t, rlxtest.SAM()), rlx.Options{Threads: 1})
	runner := rlxtest.Runner{Session: direct, Do: func(ctx context.Context, q rlx.Request) (*rlx.Result, error) {
		if err := before(q); err != nil {
			return nil, err
		}
		return direct.Run(ctx, q)
	}}
	s, err := New([]Artifact{{Name: "sam", Runner: runner}}, l)
	if err != nil {
		t.Fatal(err)
	}
	return s, direct
}

// ask runs a method as a request does.
func (s *Service) ask(ctx context.Context, method string, in map[string]rlx.Tensor) (map[string]rlx.Tensor, error) {
	m, done, err := s.use("sam."+method, "")
	if err != nil {
		return nil, err
	}
	defer done()
	values, out, err := m.run(ctx, in, nil)
	all := map[string]rlx.Tensor{}
	for i, v := range values {
		all[v.Name] = out[i]
	}
	return all, err
}

func samImage(t *testing.T, seed uint64) map[string]rlx.Tensor {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	pixels := make([]float32, 3*256*256)
	for i := range pixels {
		pixels[i] = rng.Float32()
	}
	x, err := rlx.NewTensor(pixels, 1, 3, 256, 256)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]rlx.Tensor{"image": x}
}

// TestKept: an image is encoded once for all requests, also if they come at the same time; an error is not kept; what
// was used last stays if there is no room for all, and nothing stays of an artifact that was replaced.
func TestKept(t *testing.T) {
	runs := 0
	var fails error
	s, direct := samFixture(t, Limits{}, func(rlx.Request) error { runs++; return fails })
	m, err := direct.Model().Method("encode")
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, v := range m.Outputs {
		size += v.MaxBytes()
	}
	reserved := int64(0)
	var none error
	artifact := Artifact{Name: "sam", Runner: s.models["sam.encode"].runner,
		Reserve: func(n int64) error {
			if none == nil {
				reserved += n
			}
			return none
		},
		Release: func(n int64) { reserved -= n }}
	if s, err = New([]Artifact{artifact}, Limits{Kept: 2 * size}); err != nil {
		t.Fatal(err)
	}
	want := map[uint64][]byte{}
	ask := func(image uint64, more int) {
		t.Helper()
		before := runs
		out, err := s.ask(t.Context(), "encode", samImage(t, image))
		if err != nil {
			t.Fatal(err)
		}
		if want[image] == nil {
			want[image] = out["embeddings"].Data
		}
		if runs-before != more || !bytes.Equal(out["embeddings"].Data, want[image]) {
			t.Errorf("image %d: %d runs; want %d and the same encoding", image, runs-before, more)
		}
	}
	fails = errors.New("fails")
	if _, err := s.ask(t.Context(), "encode", samImage(t, 1)); err != fails {
		t.Errorf("%v; want %v", err, fails)
	}
	fails = nil
	ask(1, 1)
	ask(2, 1)
	ask(1, 0)
	ask(3, 1) // in place of 2
	ask(1, 0)
	ask(2, 1)
	ask(3, 1)
	if s.kept.size != 2*size || reserved != 2*size {
		t.Errorf("%d bytes are kept and %d reserved; want %d", s.kept.size, reserved, 2*size)
	}
	if err := s.Put(artifact); err != nil {
		t.Fatal(err)
	}
	if s.kept.size != 0 || reserved != 0 || len(s.kept.of) != 0 {
		t.Errorf("%d bytes are kept of a replaced artifact, %d reserved", s.kept.size, reserved)
	}
	none = rlx.ErrMemory
	ask(1, 1)
	ask(1, 1)
	none = nil
	var all sync.WaitGroup
	before := runs
	for range 4 {
		all.Go(func() {
			out, err := s.ask(t.Context(), "encode", samImage(t, 1))
			if err != nil || !bytes.Equal(out["embeddings"].Data, want[1]) {
				t.Errorf("at the same time: %v, or another encoding", err)
			}
		})
	}
	all.Wait()
	if runs-before != 1 {
		t.Errorf("%d runs for four requests at the same time", runs-before)
	}
}

// TestPrompts: prompts for an image that wait share a run, but for those with other numbers of points or with a mask;
// the masks are those of single runs. A wrong prompt fails alone, and one whose client has gone is dropped.
func TestPrompts(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	var runs []int // prompts of each
	s, direct := samFixture(t, Limits{}, func(q rlx.Request) error {
		if q.Method == "decode" || q.Method == "decode_batch" {
			runs = append(runs, q.Inputs["points"].Shape[0])
			entered <- true
			<-leave
		}
		return nil
	})
	var images []map[string]rlx.Tensor
	for i := range 2 {
		r, err := direct.Run(t.Context(), rlx.Request{Method: "encode", Inputs: samImage(t, uint64(i))})
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, r.Outputs)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	request := func(image, prompts, points int) map[string]rlx.Tensor {
		xy, labels := make([]float32, 2*prompts*points), make([]int32, prompts*points)
		for i := range xy {
			xy[i] = 256 * rng.Float32()
		}
		for i := range labels {
			labels[i] = int32(rng.IntN(2))
		}
		p, err := rlx.NewTensor(xy, prompts, points, 2)
		l, failed := rlx.NewTensor(labels, prompts, points)
		if err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		return map[string]rlx.Tensor{"embeddings": images[image]["embeddings"], "points": p, "labels": l}
	}
	decode, err := direct.Model().Method("decode")
	if err != nil {
		t.Fatal(err)
	}
	mask := request(0, 1, 2)
	v, _ := decode.Input("mask")
	side := int(v.Shape[3].Max)
	if mask["mask"], err = rlx.NewTensor(make([]float32, side*side), 1, 1, side, side); err != nil {
		t.Fatal(err)
	}
	wrong := request(0, 2, 2)
	wrong["labels"] = rlx.Tensor{DType: rlx.I32, Shape: []int{2, 2}, Data: wrong["labels"].Data[:4]}
	type ask struct {
		method string
		in     map[string]rlx.Tensor
		err    error
	}
	p := s.models["sam.decode"].prompts
	// round sends requests, of which the first is in progress until the others wait, and checks the runs that it makes.
	round := func(want []int, asks ...ask) {
		t.Helper()
		runs = nil
		var all sync.WaitGroup
		for i, c := range asks {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			all.Go(func() {
				got, err := s.ask(ctx, c.method, c.in)
				if c.err != nil {
					if !errors.Is(err, c.err) {
						t.Errorf("request %d: %v; want %v", i, err, c.err)
					}
					return
				}
				alone, failed := direct.Run(t.Context(), rlx.Request{Method: c.method, Inputs: c.in})
				if err != nil || failed != nil {
					t.Errorf("request %d: %v; alone %v", i, err, failed)
					return
				}
				for name, x := range alone.Outputs {
					if !slices.Equal(got[name].Shape, x.Shape) || !near(got[name], x) {
						t.Errorf("request %d: %s is %v; alone %v", i, name, got[name], x)
					}
				}
			})
			if i == 0 {
				<-entered
			}
			for n := -1; i > 0 && n < i; { // until it waits
				p.mu.Lock()
				n = len(p.waiting)
				p.mu.Unlock()
			}
			if c.err == context.Canceled {
				cancel()
			}
		}
		done := make(chan bool)
		go func() { all.Wait(); close(done) }()
		leave <- true
		for ended := false; !ended; {
			select {
			case <-entered:
				leave <- true
			case <-done:
				ended = true
			}
		}
		if !slices.Equal(runs, want) {
			t.Errorf("runs of %v prompts; want %v", runs, want)
		}
	}
	round([]int{1, 5, 1, 1, 1, 2},
		ask{"decode", request(0, 1, 2), nil},
		ask{"decode", request(0, 1, 2), nil},
		ask{"decode_batch", request(0, 3, 2), nil},
		ask{"decode", request(1, 1, 2), nil}, // another image
		ask{"decode", request(0, 1, 3), nil}, // another number of points
		ask{"decode", mask, nil},
		ask{"decode", request(0, 1, 2), context.Canceled},
		ask{"decode", request(0, 2, 2), rlx.ErrInput}, // takes one
		ask{"decode", request(0, 1, 2), nil})
	round([]int{1, 4, 1, 2, 1},
		ask{"decode", request(0, 1, 2), nil},
		ask{"decode", request(0, 1, 2), nil},
		ask{"decode_batch", wrong, rlx.ErrInput},
		ask{"decode", request(0, 1, 2), nil})
	round([]int{1, 8, 5}, // at most 8 share a run
		ask{"decode", request(0, 1, 1), nil},
		ask{"decode_batch", request(0, 5, 1), nil},
		ask{"decode_batch", request(0, 5, 1), nil},
		ask{"decode_batch", request(0, 3, 1), nil})
}

// near reports whether two outputs are the same up to rounding, which depends on how many prompts share a run.
func near(a, b rlx.Tensor) bool {
	x, err := rlx.Values[float32](a)
	y, failed := rlx.Values[float32](b)
	if err != nil || failed != nil || len(x) != len(y) {
		return false
	}
	for i := range x {
		if d := math.Abs(float64(x[i] - y[i])); !(d <= 1e-3*max(1, math.Abs(float64(y[i])))) {
			return false
		}
	}
	return true
}
