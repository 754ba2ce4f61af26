package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/campaign"
)

// refused verifies b and checks that it fails with a typed error and the exit status of a bad artifact.
func refused(t *testing.T, what string, b []byte) {
	t.Helper()
	if _, err := verifyBytes(b); diag.ExitCode(err) != 4 {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestTruncated(t *testing.T) {
	b := artifactBytes(t)
	step := 1
	for n := 0; n < len(b); n += step {
		refused(t, "cut to "+string(rune('0'+n%10)), b[:n])
		if n > 8192 && n < len(b)-1024 {
			step = 61 // for the padding before the weights
		} else {
			step = 1
		}
	}
}

// TestBitFlips checks that digests cover every bit of header, table and CHNK, and one bit of every byte after them,
// unless the bit must be zero.
func TestBitFlips(t *testing.T) {
	b := artifactBytes(t)
	table := HeaderSize + EntrySize*int(binary.LittleEndian.Uint32(b[offSections:]))
	flip := func(i int, bit byte) {
		b[i] ^= bit
		refused(t, "flipped bit", b)
		b[i] ^= bit
	}
	for i := range table {
		for bit := range 8 {
			flip(i, 1<<bit)
		}
	}
	for i := table; i < len(b); i++ {
		if i < 8192 || i > len(b)-1024 || i%61 == 0 {
			flip(i, 1<<(i%8))
		}
	}
}

// failingReader counts reads and fails at the nth.
type failingReader struct {
	r    io.ReaderAt
	left int
}

var errDisk = errors.New("the disk is gone")

func (f *failingReader) ReadAt(b []byte, off int64) (int, error) {
	if f.left--; f.left == -1 {
		return 0, errDisk
	}
	return f.r.ReadAt(b, off)
}

// TestReadErrors checks that the error of a failed read is reported, for each read.
func TestReadErrors(t *testing.T) {
	b := artifactBytes(t)
	for n := 0; ; n++ {
		r := &failingReader{bytes.NewReader(b), n}
		// The order of reads must be deterministic. Another test covers the chunks.
		_, err := Verify(r, int64(len(b)), Policy{Weights: None})
		if r.left >= 0 {
			if err != nil || n < 10 {
				t.Errorf("%d reads: %v", n, err)
			}
			return
		}
		if !errors.Is(err, errDisk) || diag.ExitCode(err) != 4 {
			t.Errorf("read %d failed: %v", n, err)
		}
	}
}

// mutate changes a few things in an artifact: it sets numbers to edge cases, to nearby values and to one another, and
// changes the order and number of items.
func mutate(r *rand.Rand, m *mutant) {
	c := m.c
	number := func(x *int64) {
		edges := []int64{0, 1, -1, 255, 256, 257, 512, 1 << 20, 1 << 32, 1 << 40, 1<<40 + 1, 1 << 62, 1<<63 - 1,
			-1 << 63}
		switch r.IntN(4) {
		case 0:
			*x = edges[r.IntN(len(edges))]
		case 1:
			*x += int64(r.IntN(5) - 2)
		case 2:
			*x += 256 * int64(r.IntN(5)-2)
		case 3:
			*x = int64(r.IntN(16))
		}
	}
	for range 1 + r.IntN(3) {
		i, what := r.IntN(len(c.graphs)), r.IntN(20)
		m.own(i, what)
		g, p, s := &c.graphs[i], &c.plans[i], &c.scheds[i]
		var body *rawBody // of a loop, if it is changed
		if len(p.bodies) > 0 && r.IntN(2) == 0 {
			k := r.IntN(len(p.bodies))
			body = &g.bodies[p.bodies[k].body]
			g = &rawGraph{nodes: body.nodes, syms: body.syms, outputs: body.outputs}
			p, s = &p.bodies[k].rawPlan, &s.bodies[k].rawSched
		}
		if len(g.nodes) == 0 || len(p.places) == 0 {
			return // all of them were removed
		}
		switch what {
		case 19:
			if len(p.loops) > 0 {
				x := &p.loops[r.IntN(len(p.loops))]
				number([]*int64{&x.node, &x.offset, &x.offset}[r.IntN(3)])
			}
		case 15, 16, 17:
			if len(c.splits) > 0 {
				mutateSplit(r, &c.splits[r.IntN(len(c.splits))], number)
			}
		case 0, 1, 2:
			x := &p.places[r.IntN(len(p.places))]
			number([]*int64{&x.space, &x.offset, &x.offset, &x.offset, &x.size, &x.parent}[r.IntN(6)])
		case 3:
			*[]*int64{&p.arena, &p.io}[r.IntN(2)] += 256 * int64(r.IntN(5)-2)
		case 4:
			if len(s.steps) > 0 {
				x := &s.steps[r.IntN(len(s.steps))]
				number(&x.node)
			}
		case 5:
			shuffle(r, &s.steps)
		case 6:
			n := &g.nodes[r.IntN(len(g.nodes))]
			if len(n.in) > 0 {
				number(&n.in[r.IntN(len(n.in))])
			}
		case 7:
			n := &g.nodes[r.IntN(len(g.nodes))]
			if len(n.typ.shape) > 0 {
				x := &n.typ.shape[r.IntN(len(n.typ.shape))]
				number(&x.Const)
				if len(g.syms) > 0 && r.IntN(4) == 0 {
					*x = ir.Named(g.syms[r.IntN(len(g.syms))].Name)
				}
			}
		case 8:
			n := &g.nodes[r.IntN(len(g.nodes))]
			if len(n.attrs) > 0 {
				a := &n.attrs[r.IntN(len(n.attrs))]
				switch v := a.Value.(type) {
				case int64:
					number(&v)
					a.Value = v
				case bool:
					a.Value = !v
				case []int64:
					shuffle(r, &v)
					for k := range v {
						number(&v[k])
					}
					a.Value = v
				}
			}
		case 9:
			ops := strings.Fields(
				"add mul relu matmul reshape softmax input param const narrow concat gather where conv2d attention " +
					"grid_attention elementwise_region fused_matmul transpose reduce_sum expand cast copy pad iota layer_norm max")
			g.nodes[r.IntN(len(g.nodes))].op = ops[r.IntN(len(ops))]
		case 10:
			shuffle(r, &g.nodes)
		case 11:
			if len(g.syms) > 0 {
				x := &g.syms[0]
				number([]*int64{&x.Min, &x.Max}[r.IntN(2)])
			}
		case 12:
			if len(c.tensors) > 0 {
				x := &c.tensors[r.IntN(len(c.tensors))]
				number([]*int64{&x.offset, &x.size}[r.IntN(2)])
			}
		case 13:
			if len(g.outputs) > 0 {
				number(&g.outputs[r.IntN(len(g.outputs))].node)
			}
		case 14: // repeat an operand
			n := &g.nodes[r.IntN(len(g.nodes))]
			for try := 0; len(n.in) < 2 && try < 8; try++ {
				n = &g.nodes[r.IntN(len(g.nodes))]
			}
			if len(n.in) > 1 {
				k := r.Perm(len(n.in))
				n.in[k[0]] = n.in[k[1]]
			}
		case 18: // another optional operand
			for _, n := range g.nodes {
				if len(n.optional) > 0 {
					o := &n.optional[r.IntN(len(n.optional))]
					o.name = []string{"bias", "residual", "x", o.name}[r.IntN(4)]
					number(&o.node)
				}
			}
		}
		if body != nil && m.changed[partGraph] {
			body.nodes = g.nodes
		}
	}
}

// own makes copies of what a change of program i will write to.
func (m *mutant) own(i, what int) {
	c := m.c
	var part int
	switch what {
	case 0, 1, 2, 3, 19:
		part = partPlan
	case 4, 5:
		part = partSched
	case 12:
		part = partTensors
	case 15, 16, 17:
		part = partSplits
	default:
		part = partGraph
	}
	first, bit := !m.changed[part], uint64(1)<<i
	mine := m.owned[part]&bit != 0
	m.changed[part], m.owned[part] = true, m.owned[part]|bit
	switch {
	case part == partTensors && first:
		c.tensors = slices.Clone(c.tensors)
	case part == partSplits && first:
		c.splits = slices.Clone(c.splits)
		for i := range c.splits {
			c.splits[i].clone()
		}
	case part == partGraph && !mine:
		c.graphs = own(c.graphs, first)
		c.graphs[i].clone()
	case part == partPlan && !mine:
		c.plans = own(c.plans, first)
		c.plans[i].clone()
	case part == partSched && !mine:
		c.scheds = own(c.scheds, first)
		c.scheds[i].clone()
	}
}

func own[T any](list []T, first bool) []T {
	if first {
		return slices.Clone(list)
	}
	return list
}

// shuffle swaps, repeats or removes items.
func shuffle[T any](r *rand.Rand, list *[]T) {
	l := *list
	if len(l) == 0 {
		return
	}
	i, j := r.IntN(len(l)), r.IntN(len(l))
	switch r.IntN(4) {
	case 0, 1:
		l[i], l[j] = l[j], l[i]
	case 2:
		*list = append(l, l[i])
	case 3:
		*list = append(l[:i:i], l[i+1:]...)
	}
}

// mutateSplit changes where a value comes from, which program a segment has, or the order of segments.
func mutateSplit(r *rand.Rand, s *rawSplit, number func(*int64)) {
	if len(s.segments) == 0 {
		return
	}
	x := &s.segments[r.IntN(len(s.segments))]
	list := []*[]rawSource{&x.inputs, &s.outputs}[r.IntN(2)]
	switch r.IntN(6) {
	case 0:
		shuffle(r, &s.segments)
	case 1:
		shuffle(r, list)
	case 2:
		number(&x.program)
	case 3:
		s.target, s.method = []string{"few", "cpu", "npu"}[r.IntN(3)], []string{"chain", "encode", "decode"}[r.IntN(3)]
	default:
		if len(*list) > 0 {
			from := &(*list)[r.IntN(len(*list))]
			from.segment, from.index = int64(r.IntN(5)-1), int64(r.IntN(3))
		}
	}
}

// checkSplit runs the segments in order.
func checkSplit(t testing.TB, m *Method, s *program.Split) {
	t.Helper()
	r := rand.New(rand.NewPCG(9, 9))
	syms := m.Syms.Max()
	var inputs []*tensor.Array
	for _, v := range m.Inputs {
		if m.Syms.MaxBytes(v.Type) > 1<<16 {
			return
		}
		inputs = append(inputs, interp.Random(r, v.Type, syms, ir.Range{Lo: 0, Hi: 2}))
	}
	var results []map[string]*tensor.Array
	value := func(from program.Source) *tensor.Array {
		if from.Segment == program.FromInput {
			return inputs[from.Index]
		}
		return results[from.Segment][s.Segments[from.Segment].Graph.Outputs[from.Index].Name]
	}
	for _, x := range s.Segments {
		if x.ArenaSize+x.IOSize+x.StateSize+x.WeightsExtent() > 1<<16 {
			return
		}
		in := map[string]*tensor.Array{}
		for i, n := range x.Graph.Inputs() {
			in[n.Name] = value(x.Inputs[i])
		}
		out, err := interp.RunProgram(x.Program, syms, in, make([]byte, x.WeightsExtent()))
		if err != nil {
			return // an index is out of range
		}
		results = append(results, out)
	}
	for i, from := range s.Outputs {
		if got, want := value(from).Shape, m.Outputs[i].Type.Shape.Eval(syms); !slices.Equal(got, want) {
			t.Fatalf("accepted, but output %d is %v; want %v", i, got, want)
		}
	}
}

// checkAccepted checks accepted programs with code other than the verifier.
func checkAccepted(t testing.TB, programs []*program.Program) {
	t.Helper()
	for _, p := range programs {
		if err := p.Graph.Verify(); err != nil {
			t.Fatalf("accepted, but core/ir refuses it: %v", err)
		}
		if err := plan.CheckProgram(p); err != nil {
			t.Fatalf("accepted, but core/plan refuses it: %v\n%v", err, p.Graph)
		}
		b, err := EncodeProgram(p)
		if err != nil {
			t.Fatalf("accepted, but cannot be sent: %v", err)
		}
		q, err := DecodeProgram(b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := EncodeProgram(q)
		if err != nil || !bytes.Equal(b, again) {
			t.Fatalf("encodes to other bytes after decoding (%v)", err)
		}
		checkRun(t, q)
	}
}

// iterations returns how often the bodies of the graph's loops run at most. A forged length may be 2^31.
func iterations(g *ir.Graph) int {
	all := 0
	for _, n := range g.Nodes {
		if a, ok := n.Attrs.(op.LoopAttrs); ok {
			all = min(1<<31, all+a.Length*(1+iterations(a.Body)))
		}
	}
	return all
}

// ownMemory returns the bytes that the definitions of the graph's ops allocate for themselves. A forged window may ask
// for terabytes where every tensor is small; a host refuses such a program by its memory limit.
func ownMemory(g *ir.Graph) int64 {
	most := int64(0)
	for _, n := range g.Nodes {
		_, own := n.EvalMemory()
		most = max(most, own)
		if a, ok := n.Attrs.(op.LoopAttrs); ok {
			most = max(most, ownMemory(a.Body))
		}
	}
	return most
}

// checkRun runs a small program on memory that is poisoned wherever the plan does not protect it. The results must be
// those of its graph without a plan.
func checkRun(t testing.TB, p *program.Program) {
	t.Helper()
	if p.ArenaSize+p.IOSize+p.StateSize+p.WeightsExtent() > 1<<16 || iterations(p.Graph) > 1<<12 ||
		ownMemory(p.Graph) > 1<<24 {
		return
	}
	r := rand.New(rand.NewPCG(9, 9))
	weights := make([]byte, p.WeightsExtent())
	for i := range weights {
		weights[i] = byte(0x3e) // floats near 0.19, halves near 1.6
	}
	param := func(name string) (*tensor.Array, error) {
		n, _ := p.Graph.Find(name)
		return tensor.Tensor{DType: n.Type.DType, Shape: n.Type.Shape.Eval(nil),
			Data: weights[p.Places[n.ID].Offset:]}.Array(), nil
	}
	for _, syms := range []map[string]int64{p.Graph.Syms.Min(), p.Graph.Syms.Max()} {
		inputs := map[string]*tensor.Array{}
		for _, n := range p.Graph.Inputs() {
			inputs[n.Name] = interp.Random(r, n.Type, syms, ir.Range{Lo: 0, Hi: 2})
		}
		want, graphErr := interp.Run(p.Graph, syms, inputs, param)
		got, err := interp.RunProgram(p, syms, inputs, weights)
		if (graphErr == nil) != (err == nil) { // for example, both fail if an index is out of range
			t.Fatalf("accepted; the graph gives %v and the program %v\n%v", graphErr, err, p.Graph)
		}
		for name := range want {
			if err := interp.Compare(got[name], want[name], ir.Tolerance{Abs: 1e-5, Rel: 1e-4}); err != nil &&
				!roundedSo(t, p, name, got[name], syms, inputs, weights) {
				t.Fatalf("accepted, but runs wrong: %s: %v\n%v\n%+v", name, err, p.Graph, p.Places)
			}
		}
	}
}

// roundedSo reports whether a plan of our own for the same graph gives the same value. The graph may compare values
// that differ only by rounding, as the condition of a loop does. A program rounds values, and a graph without a plan
// does not.
func roundedSo(t testing.TB, p *program.Program, name string, got *tensor.Array, syms map[string]int64,
	inputs map[string]*tensor.Array, weights []byte) bool {
	t.Helper()
	if p.StateSize > 0 {
		return false
	}
	own, _, err := sched.Build(p.Graph, sched.Options{Method: p.Method, Target: p.Target,
		Weights: func(name string) (int64, bool) {
			n, ok := p.Graph.Find(name)
			return p.Places[n.ID].Offset, ok
		}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := interp.RunProgram(own, syms, inputs, weights)
	return err == nil && interp.Compare(got, want[name], ir.Tolerance{}) == nil
}

// FuzzVerify forges artifacts: it changes the structure and recomputes all digests. Whatever the verifier accepts must
// pass the checks of core/ir and core/plan, which share no code with it.
func FuzzVerify(t *testing.F) {
	f := campaign.New(t)
	for seed := range uint64(500) {
		f.Add(seed)
	}
	f.Fuzz(func(t testing.TB, seed uint64) {
		forged := forgeOne(t, seed, 0)
		v, err := verifyBytes((&forgery{c: forged.c, weights: forged.weights}).file())
		forged.judge(t, v, err)
	})
}

// FuzzContents is FuzzVerify without the container, which makes it faster.
func FuzzContents(t *testing.F) {
	f := campaign.New(t)
	for seed := range uint64(5000) {
		f.Add(seed)
	}
	f.Fuzz(func(t testing.TB, seed uint64) {
		forged := forgeOne(t, seed, 1)
		v := &Verified{meta: forged.c.meta}
		err := guard(func() error {
			c, err := forged.read()
			if err != nil {
				return err
			}
			v.dir, v.programs, v.splits, err = checkContents(c, int64(len(forged.weights)), Policy{MaxWork: 1 << 50})
			return err
		})
		forged.judge(t, v, err)
	})
}

// FuzzSections replaces a section by arbitrary bytes with matching digests.
func FuzzSections(t *testing.F) {
	f := campaign.New(t)
	list := subjects(f)
	for i, s := range list {
		for k, codec := range codecs {
			f.Add(uint8(i*len(codecs)+k), codec.bytes(s.c))
		}
	}
	f.Fuzz(func(t testing.TB, which uint8, body []byte) {
		k, s := codecs[int(which)%len(codecs)], list[int(which)/len(codecs)%len(list)]
		if len(body) == 0 {
			return
		}
		forged := &forgery{c: s.c, weights: s.weights}
		forged.body = func(kind Kind, b []byte) []byte {
			if kind == k.kind {
				return body
			}
			return b
		}
		v, err := verifyBytes(forged.file())
		if err == nil {
			checkAccepted(t, v.All())
			for _, s := range v.Splits() {
				m, _ := v.meta.Method(s.Method)
				checkSplit(t, m, s)
			}
		} else if diag.ExitCode(err) != 4 {
			t.Fatal(err)
		}
	})
}
