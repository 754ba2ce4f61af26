package kernels

import "math"

// Attention with few queries and many keys, as in text generation. The time goes into reading keys and values, so each is read once for
// all query heads that share it, and threads share the keys: each takes blocks of keys. A block results in a partial result for each
// query: its largest score, the sum of its weights and the sum of its weighted values. A second step adds up the partial results.

const (
	fewQueries = 4   // maximum number of queries per head
	fewBlock   = 512 // keys of a block, independent of the number of threads
	fewTile    = 64  // keys that are computed together, so that they stay in the L1 cache
)

// few reports whether attentionFew computes a call.
func (g *AttentionArgs) few() bool { return g.SQ <= fewQueries && g.Precision == Float32 }

type attendingFew struct {
	AttentionArgs
	p       *Pool
	rows    int       // queries of all heads that share keys: row r is query r%SQ of head r/SQ among them
	blocks  int       // blocks of a head's keys
	width   int       // floats of a partial result: values padded to whole panels, then maximum and sum
	parts   []float32 // partial results [B, KVHeads, blocks, rows, width]
	combine bool      // the second step is running
	state   []fewRows // of each worker
}

func (x *attendingFew) init(p *Pool, shared *scratch, keys int) {
	x.p = p
	x.rows = x.Heads / x.KVHeads * x.SQ
	x.blocks = (keys + fewBlock - 1) / fewBlock
	x.width = (x.DV+p.isa.nr-1)/p.isa.nr*p.isa.nr + 2
	x.parts = shared.floats(x.B * x.KVHeads * x.blocks * x.rows * x.width)
}

func attentionFew(p *Pool, g *AttentionArgs) {
	x := keep[attendingFew](p)
	x.AttentionArgs = *g
	p.shared.reset()
	most := 0
	for b := range g.B {
		keys, offset := g.span(b)
		_, hi := g.visible(keys, offset, 0, g.SQ)
		most = max(most, hi)
	}
	x.init(p, &p.shared, most)
	if x.state == nil {
		x.state = make([]fewRows, len(p.workers))
	}
	x.combine = false
	p.each(g.B*g.KVHeads*x.blocks, 1, x)
	x.combine = true
	p.share(g.B*g.Heads*g.SQ, 8, x)
}

func (x *attendingFew) do(lo, hi, worker int) {
	w := &x.state[worker]
	if x.combine {
		w.init(x, x.p.scratch(worker))
		for i := lo; i < hi; i++ {
			x.finish(w, i)
		}
		return
	}
	for t := lo; t < hi; t++ {
		sc := x.p.scratch(worker)
		sc.reset()
		w.init(x, sc)
		x.block(w, t/x.blocks/x.KVHeads, t/x.blocks%x.KVHeads, t%x.blocks)
	}
}

// fewRows holds a worker's buffers.
type fewRows struct {
	score, power []float32 // scores [rows][fewTile]; weights, transposed in groups of up to mr rows: [fewTile][rows]
	k, v, panel  []float32 // a tile of keys and of values, if they are not f32; a panel of values
	tmp, numbers []float32
}

func (w *fewRows) init(x *attendingFew, sc *scratch) {
	s := x.p.isa
	w.score, w.power = sc.floats(x.rows*fewTile), sc.floats(x.rows*fewTile)
	w.k, w.v = sc.floats(fewTile*x.DK), sc.floats(fewTile*x.DV)
	w.panel = sc.floats(fewTile * s.nr)
	w.tmp, w.numbers = sc.floats(x.width), sc.floats(spread)
}

// part returns the partial result of a block for a row.
func (x *attendingFew) part(b, kv, block, row int) []float32 {
	at := (((b*x.KVHeads+kv)*x.blocks+block)*x.rows + row) * x.width
	return x.parts[at : at+x.width]
}

// tileOf returns n rows of d elements as float32: those of m in place if it is f32, else widened into buf. In m they are stride elements
// apart, in the result ld.
func tileOf(s *isa, m Weights, at, stride, n, d int, buf []float32) (rows []float32, ld int) {
	if m.kind == 0 || m.f32 != nil {
		return m.f32[at : at+(n-1)*stride+d], stride
	}
	for i := range n {
		m.row(s, at+i*stride, d, buf[i*d:])
	}
	return buf, d
}

func (x *attendingFew) block(w *fewRows, b, kv, block int) {
	s, nr := x.p.isa, x.p.isa.nr
	for r := range x.rows {
		p := x.part(b, kv, block, r)
		clear(p)
		p[x.width-2] = float32(math.Inf(-1))
	}
	keys, offset := x.span(b)
	lo, hi := x.visible(keys, offset, 0, x.SQ)
	lo, hi = max(lo, block*fewBlock), min(hi, (block+1)*fewBlock)
	group, minusInf := x.rows/x.SQ, float32(math.Inf(-1))
	for k0 := lo; k0 < hi; k0 += fewTile {
		n := min(fewTile, hi-k0)
		mat, ld := tileOf(s, x.K, b*x.KStride.Batch+kv*x.KStride.Head+k0*x.KStride.Seq, x.KStride.Seq, n, x.DK, w.k)
		masked := false
		for r := range x.rows {
			head, i := kv*group+r/x.SQ, r%x.SQ
			row := w.score[r*fewTile:][:n]
			q := x.Q[b*x.QStride.Batch+head*x.QStride.Head+i*x.QStride.Seq:][:x.DK]
			s.dotRows(row, 1, mat, ld, n, q)
			x.scoreRow(s, row, w.numbers)
			masked = x.maskRow(row, b, head, i, k0, offset) || masked
			part := x.part(b, kv, block, r)
			most := part[x.width-2]
			for _, v := range row {
				raise(&most, v)
			}
			if most == minusInf {
				if sum := s.sum(row); sum == sum { // all are -Inf, none is NaN
					clear(row)
					continue
				}
				most = 0
			}
			withNumber(s.binary[Sub], row, most, w.numbers)
			s.apply(Exp, row, row)
			if was := part[x.width-2]; was != most && was != minusInf {
				withNumber(s.binary[Mul], part[:x.width-2], exp32(was-most), w.numbers)
				part[x.width-1] *= exp32(was - most)
			}
			part[x.width-2] = most
			part[x.width-1] += s.sum(row)
		}
		values, vld := tileOf(s, x.V, b*x.VStride.Batch+kv*x.VStride.Head+k0*x.VStride.Seq, x.VStride.Seq, n, x.DV, w.v)
		if masked && !rowsFinite(s, values, vld, n, x.DV) { // 0 times NaN is NaN
			x.addOneByOne(w, b, kv, block, n, values, vld)
			continue
		}
		for r := 0; r < x.rows; r += s.mr {
			h := min(s.mr, x.rows-r)
			for i := range h {
				for j, v := range w.score[(r+i)*fewTile:][:n] {
					w.power[r*fewTile+j*h+i] = v
				}
			}
		}
		for d := 0; d < x.DV; d += nr {
			if x.DV-d >= nr {
				for e := 0; e < nr; e += s.lanes {
					s.copyRows(w.panel[e:], nr, values[d+e:], vld, n)
				}
			} else {
				clear(w.panel)
				for j := range n {
					copy(w.panel[j*nr:], values[j*vld+d:j*vld+x.DV])
				}
			}
			for r := 0; r < x.rows; r += s.mr {
				h := min(s.mr, x.rows-r)
				at := (((b*x.KVHeads+kv)*x.blocks+block)*x.rows + r) * x.width
				s.gemm(h, n, w.power[r*fewTile:], w.panel, x.parts[at+d:], x.width, true, nil, nil, 0)
			}
		}
	}
}

func exp32(x float32) float32 { return float32(math.Exp(float64(x))) }

func rowsFinite(s *isa, x []float32, ld, n, d int) bool {
	for i := range n {
		if !allFinite(s, x[i*ld:][:d]) {
			return false
		}
	}
	return true
}

func (x *attendingFew) addOneByOne(w *fewRows, b, kv, block, n int, values []float32, ld int) {
	for r := range x.rows {
		part := x.part(b, kv, block, r)
		for j, p := range w.score[r*fewTile:][:n] {
			if p != 0 {
				for e, v := range values[j*ld:][:x.DV] {
					part[e] += p * v
				}
			}
		}
	}
}

// scoreRow turns products q·k into scores: it scales and caps them.
func (g *AttentionArgs) scoreRow(s *isa, row, buf []float32) {
	if g.Softcap == 0 {
		withNumber(s.binary[Mul], row, g.Scale, buf)
		return
	}
	withNumber(s.binary[Mul], row, g.Scale/g.Softcap, buf)
	s.apply(Tanh, row, row)
	withNumber(s.binary[Mul], row, g.Softcap, buf)
}

// maskRow masks the scores of one query with keys k0, k0+1, ... It reports whether any is masked.
func (g *AttentionArgs) maskRow(row []float32, b, head, i, k0, offset int) (masked bool) {
	minusInf := float32(math.Inf(-1))
	switch g.Mask {
	case MaskNone:
	case MaskCausal, MaskSliding:
		q := i + offset
		for j := range row {
			if k := k0 + j; k > q || g.Mask == MaskSliding && k < q-g.Window {
				row[j], masked = minusInf, true
			}
		}
	default:
		at := b*g.MaskStride[0] + head*g.MaskStride[1] + i*g.MaskStride[2] + k0*g.MaskStride[3]
		for j := range row {
			switch m := at + j*g.MaskStride[3]; {
			case g.Mask == MaskBias:
				row[j] += g.MaskF32[m]
			case g.MaskBool != nil && g.MaskBool[m] == 0, g.MaskBool == nil && g.MaskF32[m] < 0.5:
				row[j] = minusInf
			}
			masked = masked || row[j] == minusInf
		}
	}
	return masked
}

// finish adds up the partial results of query n, counted over all heads and batch elements, and stores its result.
func (x *attendingFew) finish(w *fewRows, n int) {
	s := x.p.isa
	i, head, b := n%x.SQ, n/x.SQ%x.Heads, n/x.SQ/x.Heads
	group := x.rows / x.SQ
	kv, row := head/group, head%group*x.SQ+i
	most, total := float32(math.Inf(-1)), float32(0)
	for k := range x.blocks {
		raise(&most, x.part(b, kv, k, row)[x.width-2])
	}
	out := x.Out[b*x.OutStride.Batch+head*x.OutStride.Head+i*x.OutStride.Seq:][:x.DV]
	clear(out)
	if most == float32(math.Inf(-1)) {
		return
	}
	if x.Sinks != nil {
		total = exp32(x.Sinks[head] - most) // infinite if the sink outweighs all keys: then the result is 0
	}
	for k := range x.blocks {
		part := x.part(b, kv, k, row)
		if part[x.width-1] == 0 {
			continue
		}
		keep := exp32(part[x.width-2] - most)
		total += keep * part[x.width-1]
		copy(w.tmp[:x.DV], part)
		withNumber(s.binary[Mul], w.tmp[:x.DV], keep, w.numbers)
		s.binary[Add](out, out, w.tmp[:x.DV])
	}
	withNumber(s.binary[Mul], out, 1/total, w.numbers)
}
