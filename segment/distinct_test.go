package segment

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// oneMask returns a task with one mask for a square of side pixels.
func oneMask(side int) *spec {
	s := newSpec(side, 4)
	s.Tokens, s.BestFirst, s.BestLast = 1, 0, 0
	return s
}

// A pixelMask is a mask of side x side pixels, row by row, with the quality that a model predicts for it.
type pixelMask struct {
	in      []bool
	quality float32
}

// maskOf returns the mask of the pixels for which in is true.
func maskOf(side int, quality float32, in func(x, y int) bool) pixelMask {
	m := pixelMask{make([]bool, side*side), quality}
	for i := range m.in {
		m.in[i] = in(i%side, i/side)
	}
	return m
}

// box returns a mask for maskOf.
func box(x0, y0, x1, y1 int) func(x, y int) bool {
	return func(x, y int) bool { return x >= x0 && x < x1 && y >= y0 && y < y1 }
}

// candidates returns the candidates for masks. Point.X of each is its index.
func candidates(side int, masks []pixelMask) (out []candidate) {
	s := oneMask(side)
	logits := make([]float32, side*side)
	for i, m := range masks {
		for k, in := range m.in {
			logits[k] = -5
			if in {
				logits[k] = 5
			}
		}
		at := Point{X: float64(i)}
		out = append(
			out, s.candidates(logits, side, side, []float32{m.quality}, s.geometry(side, side), EverythingOptions{}, at,
				new(Dropped))...)
	}
	return out
}

// indices returns the sorted indices of the masks that regions come from.
func indices(regions []Region) (out []int) {
	for _, r := range regions {
		out = append(out, int(r.Point.X))
	}
	slices.Sort(out)
	return out
}

// TestDistinct checks that masks are duplicates if they share most of their pixels, whatever their boxes are.
func TestDistinct(t *testing.T) {
	const side = 200 // the last word of a row has 8 pixels
	m := func(quality float32, in func(x, y int) bool) pixelMask { return maskOf(side, quality, in) }
	square := box(60, 60, 140, 140)
	for name, c := range map[string]struct {
		masks []pixelMask
		bound float64
		want  []int
	}{
		"equal boxes, other shapes": {[]pixelMask{
			m(0.8, func(x, y int) bool { return square(x, y) && x >= y }),
			m(0.9, func(x, y int) bool { return square(x, y) && x+y <= 199 && x <= y }),
			m(0.7, func(x, y int) bool { return square(x, y) && (x+y >= 199) }),
		}, 0.7, []int{0, 1, 2}},
		"a ring and what it surrounds": {[]pixelMask{
			m(0.8, func(x, y int) bool { return square(x, y) && !box(61, 61, 139, 139)(x, y) }), m(0.9, square),
		}, 0.7, []int{0, 1}},
		"nested": {
			[]pixelMask{m(0.8, square), m(0.9, box(70, 70, 130, 130)), m(0.7, box(0, 0, 200, 200))}, 0.7,
			[]int{0, 1, 2}},
		"equal":                   {[]pixelMask{m(0.8, square), m(0.8, square), m(0.8, square)}, 0.7, []int{0}},
		"the better is the later": {[]pixelMask{m(0.8, square), m(0.9, box(60, 60, 140, 139))}, 0.7, []int{1}},
		"a stray pixel": {
			[]pixelMask{m(0.9, square), m(0.8, func(x, y int) bool { return square(x, y) || x == 3 && y == 5 })}, 0.7,
			[]int{0}},
		"at the bound":    {[]pixelMask{m(0.9, square), m(0.8, box(60, 60, 140, 120))}, 0.75, []int{0, 1}},
		"above the bound": {[]pixelMask{m(0.9, square), m(0.8, box(60, 60, 140, 121))}, 0.75, []int{0}},
		"no overlap is allowed": {
			[]pixelMask{m(0.9, square), m(0.8, box(139, 139, 200, 200)), m(0.7, box(140, 140, 200, 200))}, 0,
			[]int{0, 2}},
		"equal, but any IoU is kept": {[]pixelMask{m(0.9, square), m(0.8, square)}, 1, []int{0, 1}},
		"a duplicate of a duplicate": {
			[]pixelMask{m(0.7, box(60, 60, 140, 115)), m(0.8, box(60, 60, 140, 125)), m(0.9, square)}, 0.75,
			[]int{0, 2}},
		"the last pixels of the rows": {
			[]pixelMask{m(0.9, box(190, 0, 200, 200)), m(0.8, box(191, 0, 200, 200)), m(0.7, box(199, 199, 200, 200))},
			0.7, []int{0, 2}},
	} {
		var d Dropped
		got, err := EverythingOptions{MaxOverlap: c.bound}.distinct(t.Context(), candidates(side, c.masks), &d)
		if err != nil || !slices.Equal(indices(got), c.want) || d.Same != len(c.masks)-len(c.want) {
			t.Errorf("%s: kept masks %v, dropped %d, %v; want %v", name, indices(got), d.Same, err, c.want)
		}
		if !slices.IsSortedFunc(got, func(a, b Region) int { return a.Area - b.Area }) {
			t.Errorf("%s: the smallest is not first: %+v", name, got)
		}
	}
}

// TestDistinctRandom compares Distinct with the definition: from the best mask to the worst, a mask is kept if its IoU
// with each mask kept before is at most the bound. Half of the masks are others with a few pixels changed.
func TestDistinctRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 27))
	for round := range 20 {
		side := 1 + r.IntN(150)
		var masks []pixelMask
		for i := range 40 {
			x0, y0 := r.IntN(side), r.IntN(side)
			in := box(x0, y0, x0+1+r.IntN(side-x0), y0+1+r.IntN(side-y0))
			if i > 0 && r.IntN(2) == 0 {
				old := masks[r.IntN(i)].in
				in = func(x, y int) bool { return old[y*side+x] != (r.IntN(20) == 0) }
			}
			// Few different qualities, so that some are equal.
			if m := maskOf(side, 0.5+float32(r.IntN(8))/20, in); slices.Contains(m.in, true) {
				masks = append(masks, m)
			} else {
				masks = append(masks, maskOf(side, 0.5, box(0, 0, side, side)))
			}
		}
		order := make([]int, len(masks))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case masks[a].quality > masks[b].quality:
				return -1
			case masks[a].quality < masks[b].quality:
				return 1
			}
			return 0
		})
		bound := r.Float64()
		var want []int
		for _, i := range order {
			if !slices.ContainsFunc(want, func(k int) bool {
				both, either := 0, 0
				for p := range side * side {
					if masks[i].in[p] && masks[k].in[p] {
						both++
					}
					if masks[i].in[p] || masks[k].in[p] {
						either++
					}
				}
				return float64(both) > bound*float64(either)
			}) {
				want = append(want, i)
			}
		}
		slices.Sort(want)
		regions, err := EverythingOptions{MaxOverlap: bound}.distinct(t.Context(), candidates(side, masks),
			new(Dropped))
		if got := indices(regions); err != nil || !slices.Equal(got, want) {
			t.Fatalf("round %d, side %d, bound %g: kept %v, %v; want %v", round, side, bound, got, err, want)
		}
	}
}

// TestDistinctEnds checks that the comparison ends with its context.
func TestDistinctEnds(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	all := candidates(8, []pixelMask{maskOf(8, 0.9, box(0, 0, 8, 8))})
	if out, err := defaults.distinct(ctx, all, new(Dropped)); !errors.Is(err, why) || out != nil {
		t.Errorf("%v, %v", out, err)
	}
}

// TestCandidateBytes compares the bound on memory, which does not depend on the size of the image, with the allocated
// memory.
func TestCandidateBytes(t *testing.T) {
	s, o := oneMask(1024), EverythingOptions{Side: 64} // 4096 candidates
	g := s.geometry(4096, 4096)
	bound := s.candidateBytes(256, 256, g, o)
	if bound > 40<<20 {
		t.Errorf("4096 candidates may take %d bytes", bound)
	}
	if wide := s.candidateBytes(256, 256, s.geometry(4096, 1024), o); wide >= bound/2 {
		t.Errorf("a wide image may take %d bytes, a square one %d", wide, bound)
	}
	logits, quality := logitsOf(256, 256, 5, 0, 0, 256, 256), []float32{1}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const calls = 64
	for range calls {
		s.candidates(logits, 256, 256, quality, g, o, Point{}, new(Dropped))
	}
	runtime.ReadMemStats(&after)
	if each := int64(after.TotalAlloc-before.TotalAlloc) / calls; each*64*64 > bound+bound/20 {
		t.Errorf("a candidate takes %d bytes, and all %d; the bound is %d", each, each*64*64, bound)
	}
}

// BenchmarkDistinct takes 4096 candidates of 256 x 256. Those of "objects" are 64 objects, each found 64 times. Those
// of "noise" are the worst case: all have the same box and area, and all are kept, so each pair is compared word by
// word.
func BenchmarkDistinct(b *testing.B) {
	const side = 256
	r := rand.New(rand.NewPCG(1, 2))
	var objects, noise []pixelMask
	for i := range 4096 {
		x, y := i%8*32, i/8%8*32
		objects = append(objects, maskOf(side, r.Float32(), box(x, y, x+30+r.IntN(2), y+30+r.IntN(2))))
		noise = append(noise, maskOf(side, 0.9, func(x, y int) bool { return r.IntN(2) == 0 }))
	}
	for name, masks := range map[string][]pixelMask{"objects": objects, "noise": noise} {
		all := candidates(side, masks)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := defaults.distinct(b.Context(), all, new(Dropped)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var defaults = EverythingOptions{}.explicit()
