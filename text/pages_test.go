package text

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// checkPages checks that each page is free, in the tree or of a text, that texts are counted, and that a text which has
// a page of the tree has those above it.
func checkPages(t *testing.T, p *pages, lists [][]int32) {
	t.Helper()
	texts := make([]int, len(p.all))
	for _, list := range lists {
		for i, id := range list {
			if id <= 0 || slices.Contains(list[:i], id) {
				t.Fatalf("a text has the pages %v", list)
			}
			texts[id]++
			if n := p.all[id].node; n != nil && n.parent != p.root && (i == 0 || n.parent.page != list[i-1]) {
				t.Fatalf("a text has page %d of the tree without those above it", id)
			}
		}
	}
	in := make([]int, len(p.all))
	for _, id := range p.free {
		in[id]++
	}
	want := PageStats{Pages: len(p.all) - 1, Evicted: p.stats.Evicted}
	var walk func(n *pageNode)
	walk = func(n *pageNode) {
		for _, c := range n.children {
			if c.parent != n || p.all[c.page].node != c || len(c.tokens) == 0 || len(c.tokens) > p.rows ||
				len(c.tokens) < p.rows && len(c.children) > 0 || c.pure && n != p.root && !n.pure {
				t.Fatalf("page %d of the tree has %d tokens, %d children", c.page, len(c.tokens), len(c.children))
			}
			in[c.page]++
			if texts[c.page] == 0 {
				want.Kept++
			}
			walk(c)
		}
	}
	walk(p.root)
	seen := map[*pageNode]bool{}
	for e := p.unused.Front(); e != nil; e = e.Next() {
		n := e.Value.(*pageNode)
		if n.unused != e || p.all[n.page].node != n || texts[n.page] > 0 || seen[n.parent] {
			t.Fatalf("page %d is unused before page %d below it, or not unused", n.parent.page, n.page)
		}
		seen[n] = true
	}
	if len(seen) != want.Kept {
		t.Fatalf("%d pages are unused; want %d", len(seen), want.Kept)
	}
	for id := 1; id < len(p.all); id++ {
		if p.all[id].texts != texts[id] {
			t.Fatalf("page %d has %d texts; want %d", id, p.all[id].texts, texts[id])
		}
		if k := in[id]; k > 1 || (k == 0) != (texts[id] > 0 && p.all[id].node == nil) {
			t.Fatalf("page %d is %d times free or in the tree, with %d texts", id, k, texts[id])
		}
		if texts[id] > 0 {
			want.Used++
		}
		if texts[id] > 1 {
			want.Shared++
		}
	}
	if p.stats != want || texts[0] != 0 || in[0] != 0 {
		t.Fatalf("stats are %+v; want %+v", p.stats, want)
	}
}

// TestPagesAllocated checks, for texts that begin, grow and end at random, that no page is lost or given to two texts
// that do not share it, and that pages have the tokens that they stand for.
func TestPagesAllocated(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rows := 1 + rng.IntN(5)
		p := newPages(2+rng.IntN(30), rows)
		holds := make([][]int, len(p.all)) // the tokens up to the end of each page that texts have written
		type sequence struct {
			seen []int
			list []int32
			pure int
		}
		var texts []*sequence
		lists := func() (out [][]int32) {
			for _, x := range texts {
				out = append(out, x.list)
			}
			return out
		}
		keep := func(x *sequence, i, end int) {
			for ; i*rows < end; i++ {
				to := min((i+1)*rows, end)
				x.list[i] = p.add(x.list, i, x.seen[i*rows:to], x.pure >= to)
			}
		}
		leave := func(k int) {
			x := texts[k]
			keep(x, len(x.seen)/rows, len(x.seen))
			p.dropAll(x.list)
			texts = slices.Delete(texts, k, k+1)
		}
		shared := 0
		for range 3000 {
			switch k := rng.IntN(10); {
			case k < 2 && len(texts) < 6:
				tokens, pure := make([]int, 1+rng.IntN(4*rows)), rng.IntN(2) == 0
				for i := range tokens {
					tokens[i] = rng.IntN(2)
				}
				whole, more, n := p.find(tokens, pure)
				at := len(whole) * rows
				for i, id := range whole {
					if !slices.Equal(holds[id], tokens[:(i+1)*rows]) || pure && !p.all[id].node.pure {
						t.Fatalf("page %d has %v; the text begins with %v", id, holds[id], tokens)
					}
					p.hold(id)
				}
				if n > 0 && !slices.Equal(holds[more][:at+n], tokens[:at+n]) {
					t.Fatalf("page %d has %v; the text begins with %v", more, holds[more], tokens)
				}
				x := &sequence{seen: slices.Clone(tokens[:at]), list: slices.Clone(whole)}
				if pure {
					x.pure = at
				}
				shared += at + n
				texts = append(texts, x)
			case k < 9 && len(texts) > 0:
				x := texts[rng.IntN(len(texts))]
				if len(x.list)*rows == len(x.seen) {
					left := p.available()
					id, ok := p.take()
					if ok != (left > 0) {
						t.Fatalf("took %d, %v; %d are available", id, ok, left)
					}
					if !ok {
						break
					}
					x.list = append(x.list, id)
				}
				if x.pure == len(x.seen) && rng.IntN(4) > 0 {
					x.pure++
				}
				x.seen = append(x.seen, rng.IntN(2))
				holds[x.list[len(x.list)-1]] = slices.Clone(x.seen)
				keep(x, (len(x.seen)-1)/rows, len(x.seen)/rows*rows)
			case len(texts) > 0:
				leave(rng.IntN(len(texts)))
			}
			checkPages(t, p, lists())
		}
		for len(texts) > 0 {
			leave(0)
		}
		checkPages(t, p, nil)
		for range len(p.all) - 1 {
			if _, ok := p.take(); !ok {
				t.Fatal("a page is lost")
			}
		}
		if _, ok := p.take(); ok || len(p.all) > 5 && shared == 0 {
			t.Errorf("there are more pages than there were, or %d tokens were shared", shared)
		}
	}
}
