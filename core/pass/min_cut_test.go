package pass

import (
	"math/rand/v2"
	"testing"
)

// TestCut compares minimum cuts with all cuts of small random networks. Among the smallest, the one with the fewest
// vertices on the sink's side must be found.
func TestCut(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n := 2 + rng.IntN(7)
		w := newNetwork(n)
		type link struct {
			a, b     int
			capacity int64
		}
		var links []link
		for range rng.IntN(4 * n) {
			l := link{rng.IntN(n), rng.IntN(n), rng.Int64N(6)}
			if rng.IntN(8) == 0 {
				l.capacity = unlimited
			}
			if l.a == source && l.b == sink {
				continue
			}
			links = append(links, l)
			w.edge(l.a, l.b, l.capacity)
		}
		size := func(onSink func(v int) bool) (cost float64, vertices int) {
			for _, l := range links {
				if !onSink(l.a) && onSink(l.b) {
					cost += float64(l.capacity)
				}
			}
			for v := range n {
				if onSink(v) {
					vertices++
				}
			}
			return cost, vertices
		}
		side := w.cut()
		cost, vertices := size(func(v int) bool { return side[v] })
		if side[source] || !side[sink] {
			if cost < unlimited {
				t.Errorf("seed %d: source and sink are not parted", seed)
			}
			continue
		}
		for set := range 1 << n {
			if set&1 != 0 || set&2 == 0 {
				continue
			}
			c, v := size(func(v int) bool { return set>>v&1 != 0 })
			if c < cost || c == cost && v < vertices {
				t.Errorf("seed %d: a cut of %g with %d vertices; %#b has %g with %d", seed, cost, vertices, set, c, v)
				break
			}
		}
	}
}
