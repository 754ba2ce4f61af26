package matrix

import (
	"strings"

	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// Attention of one query, as for each token of a language model. Its time is mostly latency, so all keys of a share are
// read at once, and sums stay in registers.

const (
	decodingThreads = 256
	decodingAhead   = 4 // keys that a lane reads at a time
	mostDecoding    = 8 // most heads that share keys
)

// Decoding returns kernels.Limits.OwnDecoding of a device. Nil means that it has no kernel.
func Decoding(d Device) func(d kernels.Decoding) []kernels.Shader {
	if d.Capability < 80 {
		return nil
	}
	return func(d kernels.Decoding) []kernels.Shader {
		switch x := (decodingText{Decoding: d}); {
		case d.D != 32 && d.D != 64 && d.D != 128, d.Heads/d.KVHeads > mostDecoding, x.shared() > workgroupShared:
			return nil
		}
		shader := func(combine bool) kernels.Shader {
			x := decodingText{Decoding: d, Combine: combine}
			return kernels.Shader{Consts: x, Source: func(views []kernels.View) (string, error) {
				bindings := make([]kernels.Binding, len(views))
				for i := range bindings {
					bindings[i].DType = decodingType
				}
				var err error
				x := x
				x.Skips, err = skips(bindings, views)
				return x.text(), err
			}}
		}
		return []kernels.Shader{shader(false), shader(true)}
	}
}

// workgroupShared is the shared memory that each block can have.
const workgroupShared = 48 << 10

// decodingText generates both kernels.
type decodingText struct {
	kernels.Decoding
	Combine bool // the second
	Skips   []int64
}

// lanes is the number of lanes that read a key together, and rows the number of heads that share it.
func (x decodingText) lanes() int { return x.D / 4 }
func (x decodingText) rows() int  { return x.Heads / x.KVHeads }

// together is the number of keys that a warp reads at once.
func (x decodingText) together() int { return warpSize / x.lanes() }

// Shared memory has, of each warp, the sums of values of all rows, and then their references and sums of weights.
func (x decodingText) statisticsAt() int { return 4 * decodingThreads / warpSize * x.rows() * x.D }
func (x decodingText) shared() int {
	return x.statisticsAt() + 8*decodingThreads/warpSize*x.rows()
}

type decodingKernel struct {
	decodingText
	*text
	bound int // bindings so far
	p     map[string]string
	tid   string
	block string
	pages string // address of the numbers of the batch element's pages
	last  string // the largest page number
}

func (x decodingText) text() string {
	g := &decodingKernel{decodingText: x, text: newText()}
	if x.Combine {
		return g.combine()
	}
	return g.attend()
}

func (g *decodingKernel) bind() string {
	i := g.bound
	g.bound++
	skip := int64(0)
	if i < len(g.Skips) {
		skip = g.Skips[i]
	}
	return g.text.binding(i, skip)
}

// begin loads the parameters of some names, which do not depend on earlier kernels.
func (g *decodingKernel) begin(params string, names ...string) {
	t := g.text
	g.tid, g.block = t.get("r", "mov.u32", "%%tid.x"), t.get("r", "mov.u32", "%%ctaid.x")
	y, w := t.get("r", "mov.u32", "%%ctaid.y"), t.get("r", "mov.u32", "%%nctaid.x")
	t.add("mad.lo.u32 %s, %s, %s, %s", g.block, y, w, g.block)
	g.p = map[string]string{}
	for i, f := range kernels.DecodingFields {
		name, _, _ := strings.Cut(f, ":")
		for _, n := range names {
			if n == name {
				g.p[n] = t.get("r", "ld.global.nc.u32", "[%s+%d]", params, 4*i)
			}
		}
	}
	past := t.get("p", "setp.ge.u32", "%s, %s", g.block, g.p["groups"])
	t.add("@%s ret", past)
}

// attend generates the first kernel.
func (g *decodingKernel) attend() string {
	t := g.text
	q, k, v := g.bind(), g.bind(), g.bind()
	position := ""
	if g.Position {
		position = g.bind()
	}
	status := ""
	if g.PageRows > 0 {
		g.pages, status = g.bind(), g.bind()
	}
	part := g.bind()
	params := []string{"groups", "sk", "q_b", "q_h", "k_b", "k_s", "k_h", "v_b", "v_s", "v_h", "q_at", "k_at", "v_at",
		"scale", "offset", "window"}
	if g.PageRows > 0 {
		params = append(params, "elements", "pages")
	}
	g.begin(g.bind(), params...)
	share := t.get("r", "rem.u32", "%s, %d", g.block, g.Shares)
	rest := t.get("r", "div.u32", "%s, %d", g.block, g.Shares)
	head, batch := t.get("r", "rem.u32", "%s, %d", rest, g.KVHeads), t.get("r", "div.u32", "%s, %d", rest, g.KVHeads)
	lane, warp := t.get("r", "and.b32", "%s, 31", g.tid), t.get("r", "shr.u32", "%s, 5", g.tid)
	column := t.get("r", "and.b32", "%s, %d", lane, g.lanes()-1)
	first := t.get("r", "div.u32", "%s, %d", lane, g.lanes()) // of the keys of a warp
	t.add("mad.lo.u32 %s, %s, %d, %s", first, warp, g.together(), first)
	t.body.WriteString(Waits)
	if g.PageRows > 0 {
		g.beginPages(status, batch, t.get("r", "or.b32", "%s, %s", share, head))
	}
	begin, end := g.share(position, batch, share)

	rows := g.rows()
	query := make([][]string, rows)
	scale := t.get("f", "mov.b32", "%s", g.p["scale"])
	t.add("mul.f32 %s, %s, 0f3FB8AA3B", scale, scale) // log2 e
	at := g.element(q, g.p["q_at"], [][2]string{{batch, g.p["q_b"]}}, column)
	for r := range rows {
		query[r] = t.regs("f", 4)
		h := t.get("r", "mad.lo.u32", "%s, %d, %d", head, rows, r)
		h = t.get("r", "mul.lo.u32", "%s, %s", h, g.p["q_h"])
		from := t.get("d", "mad.wide.u32", "%s, 4, %s", h, at)
		t.add("ld.global.v4.f32 {%s}, [%s]", strings.Join(query[r], ", "), from)
		for _, x := range query[r] {
			t.add("mul.f32 %s, %s, %s", x, x, scale)
		}
	}
	ofKeys, ofValues := [][2]string{{head, g.p["k_h"]}}, [][2]string{{head, g.p["v_h"]}}
	if g.PageRows == 0 {
		ofKeys, ofValues = append(ofKeys, [2]string{batch, g.p["k_b"]}), append(ofValues, [2]string{batch, g.p["v_b"]})
	}
	keys, values := g.element(k, g.p["k_at"], ofKeys, column), g.element(v, g.p["v_at"], ofValues, column)

	s := newWeighing(g, rows)
	key := t.get("r", "add.u32", "%s, %s", begin, first)
	loop, done := t.label(), t.label()
	t.place(loop)
	base := t.get("r", "sub.u32", "%s, %s", key, first) // all threads leave together
	none := t.get("p", "setp.ge.u32", "%s, %s", base, end)
	t.add("@%s bra %s", none, done)
	var live []string
	var ks, vs [][]string
	for range decodingAhead {
		in := t.get("p", "setp.lt.u32", "%s, %s", key, end)
		live = append(live, in)
		page, row := g.place(key, in)
		ks = append(ks, g.row(keys, page, row, g.p["k_b"], g.p["k_s"], in))
		vs = append(vs, g.row(values, page, row, g.p["v_b"], g.p["v_s"], in))
		t.add("add.u32 %s, %s, %d", key, key, g.together()*decodingThreads/warpSize)
	}
	s.add(query, ks, vs, live)
	t.add("bra %s", loop)
	t.place(done)
	s.mergeLanes()
	g.write(s, part, batch, head, share, warp, lane)
	t.add("ret")
	return t.finish(entry{"sm_80", decodingThreads, g.shared(), g.bound, 2})
}

// share returns the keys of the block: those from begin to end - 1.
func (g *decodingKernel) share(position, batch, share string) (begin, end string) {
	t := g.text
	end = g.p["sk"]
	begin = t.get("r", "mov.u32", "0")
	if g.Mask != op.MaskNone {
		at := g.p["offset"]
		if g.Position {
			from := position
			if g.PositionEach {
				from = t.get("d", "mad.wide.u32", "%s, 4, %s", batch, position)
			}
			at = t.get("r", "ld.global.u32", "[%s]", from)
			t.add("max.s32 %s, %s, -1073741824", at, at)
			t.add("min.s32 %s, %s, 1073741824", at, at)
		}
		seen := t.get("r", "add.u32", "%s, 1", at)
		t.add("max.s32 %s, %s, 0", seen, seen)
		end = t.get("r", "min.s32", "%s, %s", seen, end)
		if g.Mask == op.MaskSliding {
			t.add("sub.s32 %s, %s, %s", begin, at, g.p["window"])
			t.add("max.s32 %s, %s, 0", begin, begin)
			t.add("min.u32 %s, %s, %s", begin, begin, end)
		}
	}
	each := t.get("r", "sub.u32", "%s, %s", end, begin)
	t.add("add.u32 %s, %s, %d", each, each, g.Shares-1)
	t.add("div.u32 %s, %s, %d", each, each, g.Shares)
	begin = t.get("r", "mad.lo.u32", "%s, %s, %s", share, each, begin)
	mine := t.get("r", "add.u32", "%s, %s", begin, each)
	return begin, t.get("r", "min.u32", "%s, %s", mine, end)
}

// element returns the address of vector column of four elements, after offsets of indices times strides.
func (g *decodingKernel) element(base, start string, indices [][2]string, column string) string {
	t := g.text
	at := t.get("d", "mad.wide.u32", "%s, 4, %s", start, base)
	for _, i := range indices {
		offset := t.get("d", "mul.wide.u32", "%s, %s", i[0], i[1])
		t.add("mad.lo.u64 %s, %s, 4, %s", at, offset, at)
	}
	t.add("mad.wide.u32 %s, %s, 16, %s", at, column, at)
	return at
}

// beginPages finds the pages of a batch element. It reports those that are out of range, in the block whose number
// other is 0.
func (g *decodingKernel) beginPages(status, batch, other string) {
	t := g.text
	first := t.get("r", "mul.lo.u32", "%s, %s", batch, g.p["pages"])
	t.add("mad.wide.u32 %s, %s, 4, %s", g.pages, first, g.pages)
	g.last = t.get("r", "sub.u32", "%s, 1", g.p["elements"])
	loop, done := t.label(), t.label()
	others := t.get("p", "setp.ne.u32", "%s, 0", other)
	t.add("@%s bra %s", others, done)
	i := t.get("r", "mov.u32", "%s", g.tid)
	t.place(loop)
	past := t.get("p", "setp.ge.u32", "%s, %s", i, g.p["pages"])
	t.add("@%s bra %s", past, done)
	page := t.get("r", "ld.global.u32", "[%s]", t.get("d", "mad.wide.u32", "%s, 4, %s", i, g.pages))
	wrong := t.get("p", "setp.ge.u32", "%s, %s", page, g.p["elements"]) // a negative number becomes large
	t.add("@%s st.global.u32 [%s], 1", wrong, status)
	t.add("add.u32 %s, %s, %d", i, i, decodingThreads)
	t.add("bra %s", loop)
	t.place(done)
}

// place returns the page of a key, empty without pages, and its row there.
func (g *decodingKernel) place(key, live string) (page, row string) {
	if g.PageRows == 0 {
		return "", key
	}
	t := g.text
	at := t.get("d", "mad.wide.u32", "%s, 4, %s", t.get("r", "div.u32", "%s, %d", key, g.PageRows), g.pages)
	page = t.get("r", "mov.u32", "0")
	t.add("@%s ld.global.u32 %s, [%s]", live, page, at)
	t.add("min.u32 %s, %s, %s", page, page, g.last)
	return page, t.get("r", "rem.u32", "%s, %d", key, g.PageRows)
}

// row loads four elements of a key or a value, or zeros if the lane has none.
func (g *decodingKernel) row(base, page, row, pageStride, stride, live string) []string {
	t := g.text
	out := t.regs("f", 4)
	offset := t.get("d", "mul.wide.u32", "%s, %s", row, stride)
	if page != "" {
		t.add("add.u64 %s, %s, %s", offset, offset, t.get("d", "mul.wide.u32", "%s, %s", page, pageStride))
	}
	at := t.get("d", "mad.lo.u64", "%s, 4, %s", offset, base)
	for _, r := range out {
		t.add("mov.f32 %s, 0f00000000", r)
	}
	t.add("@%s ld.global.v4.f32 {%s}, [%s]", live, strings.Join(out, ", "), at)
	return out
}

// combine generates the second kernel.
func (g *decodingKernel) combine() string {
	t := g.text
	part, y := g.bind(), g.bind()
	g.begin(g.bind(), "groups", "heads", "o_b", "o_h")
	t.body.WriteString(Waits)
	stride := 4 * (g.D + 4)
	from := t.get("d", "mad.wide.u32", "%s, %d, %s", g.block, stride*g.Shares, part)
	m, l, o := t.regs("f", g.Shares), t.regs("f", g.Shares), t.regs("f", g.Shares)
	at := t.get("d", "mad.wide.u32", "%s, 4, %s", g.tid, from)
	for s := range g.Shares {
		t.add("ld.global.f32 %s, [%s+%d]", m[s], from, s*stride+4*g.D)
		t.add("ld.global.f32 %s, [%s+%d]", l[s], from, s*stride+4*g.D+4)
		t.add("ld.global.f32 %s, [%s+%d]", o[s], at, s*stride)
	}
	most := t.get("f", "mov.f32", "%s", m[0])
	for _, r := range m[1:] {
		t.add("max.f32 %s, %s, %s", most, most, r)
	}
	total, sum := t.get("f", "mov.f32", "0f00000000"), t.get("f", "mov.f32", "0f00000000")
	for s := range g.Shares {
		w := g.weight(m[s], most)
		some := t.get("p", "setp.neu.f32", "%s, 0f00000000", l[s])
		t.add("@%s fma.rn.f32 %s, %s, %s, %s", some, total, w, l[s], total)
		t.add("@%s fma.rn.f32 %s, %s, %s, %s", some, sum, w, o[s], sum)
	}
	none := t.get("p", "setp.eq.f32", "%s, 0f00000000", total)
	t.add("div.rn.f32 %s, %s, %s", sum, sum, total)
	t.add("selp.f32 %s, 0f00000000, %s, %s", sum, sum, none)
	batch := t.get("r", "div.u32", "%s, %s", g.block, g.p["heads"])
	head := t.get("r", "rem.u32", "%s, %s", g.block, g.p["heads"])
	to := t.get("d", "mad.wide.u32", "%s, 4, %s", g.tid, y)
	for _, i := range [][2]string{{batch, g.p["o_b"]}, {head, g.p["o_h"]}} {
		offset := t.get("d", "mul.wide.u32", "%s, %s", i[0], i[1])
		t.add("mad.lo.u64 %s, %s, 4, %s", to, offset, to)
	}
	t.add("st.global.f32 [%s], %s", to, sum)
	t.add("ret")
	return t.finish(entry{"sm_80", g.D, 0, g.bound, 1})
}

// weight returns 2^(m - most), at least leastWeight, so that infinite values of keys that the query sees count.
func (g *decodingKernel) weight(m, most string) string {
	t := g.text
	w := t.get("f", "sub.f32", "%s, %s", m, most)
	t.add("ex2.approx.f32 %s, %s", w, w)
	t.add("max.NaN.f32 %s, %s, %s", w, w, leastWeight)
	return w
}
