package matrix

import (
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
)

// plainVector is the part of a kernel whose weights are not packed. A warp multiplies two rows at a time, or a row of
// each of two products if they are gated. Several warps share rows along K. Each lane reads 16 bytes at a time of a row
// into registers, and reads those of the next tile as soon as it has used them.
type plainVector struct {
	*vectorKernel
	plainShape
	wide    []string // of a tile's rows: addresses of what the lane reads next
	weights [][][]string
	loads   string // whether there is a next tile
	sums    []string
	row     string // the first of the warp in the tile
	x       string // address of what the lane reads first of x
	share   string // of K: the number of the warp's
	flip    string // what is added to the addresses of sums, which alternate between two places
}

// plainShape divides the work of a block.
type plainShape struct {
	typ    dtype.DType
	k      int
	values int // in 16 bytes
	shares int // warps that share a row
	turns  int // of a warp along its share of K
}

// plainLoads is the number of vectors of 16 bytes of a row that a lane reads at a time, and plainPair the number of
// rows of a warp.
const plainLoads, plainPair = 4, 2

func (x vectorText) plain(d dtype.DType) plainShape {
	s := plainShape{typ: d, k: x.K, values: 16 / d.Size(), shares: 1}
	for s.shares < vectorWarps && s.shares*s.chunk() < x.K {
		s.shares *= 2
	}
	s.turns = ceilDiv(x.K, s.shares*s.chunk())
	return s
}

// chunk is the number of values of a row that a warp reads at a time.
func (s plainShape) chunk() int { return warpSize * plainLoads * s.values }

// padded is K rounded up to what all warps read.
func (s plainShape) padded() int { return s.shares * s.turns * s.chunk() }

func (s plainShape) tileRows(gated bool) int {
	if gated {
		return vectorWarps / s.shares
	}
	return vectorWarps / s.shares * plainPair
}

// Shared memory has x, its sums of squares, and the sums of each warp.
func (s plainShape) squaresAt() int { return 4 * s.padded() }
func (s plainShape) sumsAt() int    { return s.squaresAt() + 4*vectorWarps }
func (s plainShape) shared() int    { return s.sumsAt() + 2*sumsBytes }

// sumsBytes is the size of the sums of a tile. Those of the next tile follow.
const sumsBytes = 4 * vectorWarps * plainPair

func newPlainVector(g *vectorKernel) *plainVector {
	return &plainVector{vectorKernel: g, plainShape: g.plain(g.part.Type)}
}

func (g *plainVector) generate() {
	t := g.text
	sub := t.get("r", "div.u32", "%s, %d", g.warp, g.shares)
	g.share = t.get("r", "rem.u32", "%s, %d", g.warp, g.shares)
	g.row = sub
	if !g.Gated {
		g.row = t.get("r", "shl.b32", "%s, 1", sub)
	}
	g.wide = t.regs("d", plainPair)
	g.weights = make([][][]string, plainLoads)
	turn := t.get("r", "mov.u32", "0")
	g.address(g.tile, turn)
	for j := range plainLoads {
		for range plainPair {
			g.weights[j] = append(g.weights[j], t.regs("r", 4))
		}
		g.load(j, turn, "")
	}
	g.storeX()
	t.add("bar.sync 0")
	at := t.get("r", "mov.u32", "memory")
	g.x = t.get("r", "mad.lo.u32", "%s, %d, %s", g.share, 16*warpSize*plainLoads, at)
	t.add("mad.lo.u32 %s, %s, 16, %s", g.x, g.lane, g.x)
	g.sums = t.regs("f", plainPair)
	g.flip = t.get("r", "mov.u32", "memory") // a multiple of 1024
	loop, done := t.label(), t.label()
	e := g.newEpilogue(g.tileRows(g.Gated))
	t.place(loop)
	none := t.get("p", "setp.ge.u32", "%s, %s", g.tile, g.end)
	t.add("@%s bra %s", none, done)
	g.begin(e)
	for _, s := range g.sums {
		t.add("mov.f32 %s, 0f00000000", s)
	}
	t.add("add.u32 %s, %s, %s", g.tile, g.tile, g.step)
	more := t.get("p", "setp.lt.u32", "%s, %s", g.tile, g.end)
	from := t.get("r", "mov.u32", "%s", g.x)
	for i := range g.turns {
		g.loads = more
		if i < g.turns-1 {
			g.loads = ""
			t.add("mov.u32 %s, %d", turn, i+1)
			now := t.get("r", "sub.u32", "%s, %s", g.tile, g.step)
			g.address(now, turn)
		} else {
			t.add("mov.u32 %s, 0", turn)
			g.address(g.tile, turn)
		}
		for j := range plainLoads {
			g.multiply(j, from)
			g.load(j, turn, g.loads)
		}
		if i < g.turns-1 {
			t.add("add.u32 %s, %s, %d", from, from, g.shares*16*warpSize*plainLoads)
		}
	}
	g.reduce(e)
	t.add("bra %s", loop)
	t.place(done)
}

// address finds what the lane reads of a tile's rows.
func (g *plainVector) address(tile, turn string) {
	t := g.text
	row := t.get("r", "mad.lo.u32", "%s, %d, %s", tile, g.tileRows(g.Gated), g.row)
	last := t.get("r", "sub.u32", "%s, 1", g.n)
	along := t.get("r", "mad.lo.u32", "%s, %d, %s", turn, g.shares, g.share)
	along = t.get("r", "mul.lo.u32", "%s, %d", along, 16*warpSize*plainLoads)
	along = t.get("r", "mad.lo.u32", "%s, 16, %s", g.lane, along)
	for r := range plainPair {
		base, at := g.bases[0], row
		if g.Gated {
			base = g.bases[r]
		} else if r > 0 {
			at = t.get("r", "add.u32", "%s, %d", row, r)
		}
		at = t.get("r", "min.u32", "%s, %s", at, last)
		t.add("mad.wide.u32 %s, %s, %d, %s", g.wide[r], at, rowBytes(g.typ, g.k), base)
		t.add("mad.wide.u32 %s, %s, 1, %s", g.wide[r], along, g.wide[r])
	}
}

// load reads vector j of each row. past the end of K it is 0.
func (g *plainVector) load(j int, turn, guard string) {
	t := g.text
	if g.padded() != g.k {
		at := t.get("r", "mad.lo.u32", "%s, %d, %s", turn, g.shares, g.share)
		at = t.get("r", "mad.lo.u32", "%s, %d, %s", at, warpSize*plainLoads, g.lane)
		inside := t.reg("p")
		if guard == "" {
			t.add("setp.lt.u32 %s, %s, %d", inside, at, max(0, g.k/g.values-j*warpSize))
		} else {
			t.add("setp.lt.and.u32 %s, %s, %d, %s", inside, at, max(0, g.k/g.values-j*warpSize), guard)
		}
		guard = inside
		for r := range plainPair {
			for _, w := range g.weights[j][r] {
				t.add("mov.u32 %s, 0", w)
			}
		}
	}
	if guard != "" {
		guard = "@" + guard + " "
	}
	for r := range plainPair {
		t.add("%sld.global.nc.L1::no_allocate.v4.u32 {%s}, [%s+%d]", guard, strings.Join(g.weights[j][r], ", "),
			g.wide[r], 16*warpSize*j)
	}
}

// storeX writes x to shared memory, so that lanes read neighbouring vectors of four. For eight values of 16 bits, these
// are the even vectors and, after them, the odd ones. Zeros follow x.
func (g *plainVector) storeX() {
	t := g.text
	base := t.get("r", "mov.u32", "memory")
	place := func(quad string) string {
		if g.values == 4 {
			return t.get("r", "mad.lo.u32", "%s, 16, %s", quad, base)
		}
		half := t.get("r", "shr.u32", "%s, 1", quad)
		odd := t.get("r", "and.b32", "%s, 1", quad)
		to := t.get("r", "mad.lo.u32", "%s, 16, %s", half, base)
		t.add("mad.lo.u32 %s, %s, %d, %s", to, odd, 2*g.padded(), to)
		return to
	}
	if g.padded() != g.k {
		zero := t.get("f", "mov.f32", "0f00000000")
		for i := 0; i < (g.padded()-g.k)/4; i += vectorThreads {
			quad := t.get("r", "add.u32", "%s, %d", g.tid, g.k/4+i)
			in := t.get("p", "setp.lt.u32", "%s, %d", quad, g.padded()/4)
			t.add("@%s st.shared.v4.f32 [%s], {%s, %s, %s, %s}", in, place(quad), zero, zero, zero, zero)
		}
	}
	g.prepare(g.squaresAt(), func(quad string, x []string) {
		t.add("st.shared.v4.f32 [%s], {%s}", place(quad), strings.Join(x, ", "))
	})
}

// multiply multiplies vector j of each row.
func (g *plainVector) multiply(j int, from string) {
	t := g.text
	var x []string
	for h := range g.values / 4 {
		q := t.regs("f", 4)
		t.add("ld.shared.v4.f32 {%s}, [%s+%d]", strings.Join(q, ", "), from, 16*warpSize*j+h*2*g.padded())
		x = append(x, q...)
	}
	for r, w := range g.weights[j] {
		for i := range g.values {
			t.add("fma.rn.f32 %s, %s, %s, %s", g.sums[r], x[i], g.value(w, i), g.sums[r])
		}
	}
}

// value returns value i of 16 bytes.
func (g *plainVector) value(w []string, i int) string {
	t := g.text
	switch {
	case g.typ == dtype.F32:
		return t.get("f", "mov.b32", "%s", w[i])
	case g.typ == dtype.BF16 && i%2 == 0:
		return t.get("f", "mov.b32", "%s", t.get("r", "shl.b32", "%s, 16", w[i/2]))
	case g.typ == dtype.BF16:
		return t.get("f", "mov.b32", "%s", t.get("r", "and.b32", "%s, 0xffff0000", w[i/2]))
	}
	halves := t.regs("h", 2)
	t.add("mov.b32 {%s, %s}, %s", halves[0], halves[1], w[i/2])
	return t.get("f", "cvt.f32.f16", "%s", halves[i%2])
}

// reduce adds the sums of all lanes and warps, and writes the results of the tile.
func (g *plainVector) reduce(e epilogue) {
	t := g.text
	for r, s := range g.sums {
		g.addLanes(s, 16, 8, 4, 2, 1)
		g.sharedByWarp(s, g.flip, g.sumsAt()+4*vectorWarps*r)
	}
	t.add("bar.sync 0")
	skip := t.label()
	t.add("@!%s bra %s", e.live, skip)
	pair := ""
	sub := g.tid
	if !g.Gated {
		sub = t.get("r", "shr.u32", "%s, 1", g.tid)
		pair = t.get("r", "and.b32", "%s, 1", g.tid)
	}
	at := t.get("r", "mad.lo.u32", "%s, %d, %s", sub, 4*g.shares, g.flip)
	if pair != "" {
		t.add("mad.lo.u32 %s, %s, %d, %s", at, pair, 4*vectorWarps, at)
	}
	var sums []string
	for r := range btoi(g.Gated) + 1 {
		var total string
		for i := range g.shares {
			v := t.get("f", "ld.shared.f32", "[%s+%d]", at, g.sumsAt()+4*vectorWarps*r+4*i)
			if i == 0 {
				total = v
			} else {
				t.add("add.f32 %s, %s, %s", total, total, v)
			}
		}
		sums = append(sums, total)
	}
	g.write(e, sums)
	t.place(skip)
	t.add("xor.b32 %s, %s, %d", g.flip, g.flip, sumsBytes)
}
