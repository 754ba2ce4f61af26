package shim

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/plugins/cuda/ptx"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/wgsl/wgsltest"
)

// run runs a kernel on a grid of x by y blocks. Its bindings are the given words, in turn; their contents change.
func run(t *testing.T, k *ptx.Kernel, x, y uint32, words ...[]uint32) error {
	t.Helper()
	d := newDevice(Options{})
	p, err := assemble(k, len(words))
	if err != nil {
		return err
	}
	var b bindings
	for _, w := range words {
		made, err := d.NewBuffer("test", int64(4*len(w)), gpu.Storage)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, gpu.Piece{Buffer: made, Size: int64(4 * len(w))})
		for i, n := range w {
			binary.LittleEndian.PutUint32(made.(*buffer).data[4*i:], n)
		}
	}
	if err := d.launch(p, b, x, y); err != nil {
		return err
	}
	for i, w := range words {
		for k := range w {
			w[k] = binary.LittleEndian.Uint32(b[i].Buffer.(*buffer).data[4*k:])
		}
	}
	return nil
}

func translate(t *testing.T, text string) *ptx.Kernel {
	t.Helper()
	k, err := ptx.Translate(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestMeaning checks that the translation keeps the meaning of operations that PTX defines otherwise.
func TestMeaning(t *testing.T) {
	pairs := wgsltest.Pairs()
	results := make([]uint32, 8*len(pairs))
	text := strings.Replace(wgsltest.Meaning, "\nfn ",
		"\n@group(0) @binding(2) var<storage, read> P: array<u32, 1>;\nfn ", 1)
	if err := run(t, translate(t, text), 4, uint32(len(pairs)/64/4), pairs, results, []uint32{0}); err != nil {
		t.Fatal(err)
	}
	wgsltest.Check(t, results)
}

// TestFunctions compares exp, exp2 and log with package math, with random and special arguments.
func TestFunctions(t *testing.T) {
	const n = 1 << 13
	k := translate(t, `
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read> P: array<u32, 1>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let i = group.x * 64u + local;
  y[3u * i] = exp(x[i]);
  y[3u * i + 1u] = exp2(x[i]);
  y[3u * i + 2u] = log(x[i]);
}
`)
	rng := rand.New(rand.NewPCG(1, 2))
	in, out := make([]uint32, n), make([]uint32, 3*n)
	inf := math.Inf(1)
	special := []float64{0, math.Copysign(0, -1), inf, -inf, math.NaN(), 1, -1, 88.7, 88.8, -87, -103, -104, -150,
		127.5, 128, -126.5, -149, -150, 0x1p-126, 0x1p-149, 0x1.8p-130, math.MaxFloat32, 2. / 3, 4. / 3, 1 + 0x1p-23,
		1 - 0x1p-24}
	for i := range in {
		switch {
		case i < len(special):
			in[i] = number(float32(special[i]))
		case i%3 == 0:
			in[i] = rng.Uint32()
		default:
			in[i] = number(float32(rng.NormFloat64() * 40))
		}
	}
	if err := run(t, k, n/64, 1, in, out, []uint32{0}); err != nil {
		t.Fatal(err)
	}
	for i, a := range in {
		x := value(a)
		for k, want := range []float64{math.Exp(x), math.Exp2(x), math.Log(x)} {
			got, name := value(out[3*i+k]), []string{"exp", "exp2", "log"}[k]
			if rounded := float64(float32(want)); got == rounded || got != got && want != want {
				continue
			}
			ulp := math.Max(math.Ldexp(1, -149), math.Ldexp(math.Abs(want), -23))
			if name == "log" {
				ulp = math.Ldexp(math.Abs(want), -23)
			}
			if off := math.Abs(got-want) / ulp; !(off <= 4) {
				t.Errorf("%s(%v) is %v; want %v, which is %v units away", name, x, got, want, off)
			}
		}
	}
}

// around returns a kernel of 64 threads and 256 bytes of shared memory with one binding and the parameters. %r0 is the
// number of the thread, %r1 four times that, and %d0 the address of the binding.
func around(body string) *ptx.Kernel {
	return &ptx.Kernel{Threads: 64, Shared: 256, Text: `.visible .entry rlx_main(
	.param .u64 x,
	.param .u64 x_bytes
)
.reqntid 64, 1, 1
{
	.reg .pred %p<4>;
	.reg .b32 %r<20>;
	.reg .f32 %f<8>;
	.reg .b64 %d<4>;
	.shared .align 16 .b8 shared[256];
	ld.param.u64 %d0, [x];
	mov.u32 %r0, %tid.x;
	shl.b32 %r1, %r0, 2;
	` + strings.ReplaceAll(body, "; ", ";\n\t") + "\n\tret;\n}\n"}
}

// TestErrors checks the errors that the machine reports.
func TestErrors(t *testing.T) {
	const copied = "and.b32 %r2, %r0, 15; shl.b32 %r2, %r2, 4; setp.lt.u32 %p0, %r0, 16; " +
		"mad.wide.u32 %d1, %r0, 16, %d0; @%p0 cp.async.cg.shared.global [%r2], [%d1], 16; "
	const waited = "cp.async.commit_group; cp.async.wait_group 0; "
	const read = "ld.shared.u32 %r3, [%r1];"
	for _, c := range []struct{ body, want string }{
		{"st.shared.u32 [%r1], %r0; bar.sync 0; ld.shared.u32 %r2, [%r1];", ""},
		{"add.u32 %r2, %r3, 1;", "register %r3 is read before it is written"},
		{"setp.lt.u32 %p0, %r0, 5; @%p0 bra $a; mov.u32 %r2, 1;\n$a:\nadd.u32 %r3, %r2, 1;",
			"register %r2 is read before it is written"},
		{"add.u33 %r2, %r0, 1;", "instruction add.u33 is not supported"},
		{"add.u32 %f2, %r0, 1;", "%f2 is not a register of class r"},
		{"add.u32 %r20, %r0, 1;", "register %r20 is not declared"},
		{"mad.wide.u32 %d1, %r0, 8, %d0; ld.global.u32 %r2, [%d1];", "thread 32: address"},
		{"ld.global.u32 %r2, [%d0+2];", "is not a multiple of 4"},
		{"ld.shared.u32 %r2, [%r1+256];", "address 256 of 4 bytes in shared memory"},
		{read, "a read of shared memory at 0, which is not written"},
		{"st.shared.u32 [%r1], %r0; xor.b32 %r2, %r1, 4; ld.shared.u32 %r3, [%r2];",
			"a race: thread 1 has written shared memory at 4"},
		{"mov.u32 %r2, 0; st.shared.u32 [%r2], %r0;", "a race: thread 0 has written shared memory at 0"},
		{"st.shared.u32 [%r1], %r0; bar.sync 0; xor.b32 %r2, %r1, 4; ld.shared.u32 %r3, [%r2]; st.shared.u32 [%r1], %r3;",
			"a race: thread 1 has read shared memory at 0"},
		{"st.shared.u32 [%r1], %r0; bar.sync 0; mov.u32 %r2, 0; atom.relaxed.cta.shared.add.u32 %r3, [%r2], 1;", ""},
		{"st.shared.u32 [%r1], %r0; bar.sync 0; mov.u32 %r2, 0; atom.relaxed.cta.shared.add.u32 %r3, [%r2], 1; " +
			"ld.shared.u32 %r3, [%r2];", "a race: thread 63 has written shared memory at 0"},
		{"setp.lt.u32 %p0, %r0, 5; @%p0 bra $a; bar.sync 0;\n$a:", "59 of 64 threads reach the barrier"},
		{"st.global.u32 [%d0+256], %r0;", "is outside of the bindings"},

		{copied + waited + "bar.sync 0; " + read, ""},
		{copied + "cp.async.wait_all; bar.sync 0; " + read, ""},
		{copied + waited + read, "a race: thread 0 has written shared memory at 4"},
		{copied + "bar.sync 0; " + read, "a read of shared memory at 0, to which a copy is not complete"},
		{copied + "cp.async.commit_group; cp.async.wait_group 1; bar.sync 0; " + read, "to which a copy is not complete"},
		{copied + "cp.async.commit_group;", "the thread ends, and 1 copies are not waited for"},
		{"st.shared.u32 [%r1], %r0; bar.sync 0; ld.shared.u32 %r3, [%r1]; " + copied + "cp.async.wait_all;",
			"a race: thread 1 has read shared memory at 4"},
		{"setp.lt.u32 %p0, %r0, 5; @%p0 shfl.sync.idx.b32 %r2, %r0, 0, 31, 0xffffffff;",
			"only some threads of the warp execute the instruction"},
	} {
		err := run(t, around(c.body), 1, 1, make([]uint32, 64), nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s\nerror %v; want %s", c.body, err, c.want)
		}
	}
}

// TestWrites checks that the parameters cannot be written.
func TestWrites(t *testing.T) {
	k := around("st.global.u32 [%d0], %r0;")
	err := run(t, k, 1, 1, make([]uint32, 4))
	if err == nil || !strings.Contains(err.Error(), "a write to the parameters") {
		t.Error(err)
	}
}

// TestMultiply compares mma with the definition of a product. Each lane loads its parts of the operands from where PTX
// says that they are.
func TestMultiply(t *testing.T) {
	for _, c := range []struct {
		shape, typ string
		k          int // values of a sum
		bits       func(f float32) uint32
	}{
		{"m16n8k16", "bf16", 16, func(f float32) uint32 { return number(f) >> 16 }},
		{"m16n8k16", "f16", 16, func(f float32) uint32 { return uint32(int(f*4)+20) | 0x4c00 }},
		{"m16n8k8", "tf32", 8, number},
	} {
		rng := rand.New(rand.NewPCG(3, uint64(c.k)))
		read := func(bits uint32) float64 {
			switch c.typ {
			case "bf16":
				return value(bits << 16)
			case "f16":
				return float64(half(uint16(bits)))
			}
			return value(bits)
		}
		a, b, sums := make([]uint32, 16*c.k), make([]uint32, 8*c.k), make([]float64, 16*8)
		for _, m := range [][]uint32{a, b} {
			for i := range m {
				m[i] = c.bits(float32(rng.IntN(9) - 4))
			}
		}
		var words []uint32 // of each lane: four of A, two of B and four sums
		one := func(m []uint32, line, k int) uint32 {
			if c.typ == "tf32" {
				return m[line*c.k+k]
			}
			return m[line*c.k+2*k] | m[line*c.k+2*k+1]<<16
		}
		for l := range 32 {
			row, k := l/4, l%4
			words = append(words, one(a, row, k), one(a, row+8, k), one(a, row, k+4), one(a, row+8, k+4),
				one(b, row, k), one(b, row, k+4))
			for i := range 4 {
				at := (row+i/2*8)*8 + 2*k + i%2
				sums[at] = float64(at)
				words = append(words, number(float32(at)))
			}
		}
		for row := range 16 {
			for column := range 8 {
				for k := range c.k {
					sums[row*8+column] += read(a[row*c.k+k]) * read(b[column*c.k+k])
				}
			}
		}
		body := "mad.wide.u32 %d1, %r0, 40, %d0; "
		for i := range 6 {
			body += fmt.Sprintf("ld.global.u32 %%r%d, [%%d1+%d]; ", i+2, 4*i)
		}
		for i := range 4 {
			body += fmt.Sprintf("ld.global.f32 %%f%d, [%%d1+%d]; ", i, 24+4*i)
		}
		body += fmt.Sprintf("mma.sync.aligned.%s.row.col.f32.%s.%[2]s.f32 {%%f4, %%f5, %%f6, %%f7}, "+
			"{%%r2, %%r3, %%r4, %%r5}, {%%r6, %%r7}, {%%f0, %%f1, %%f2, %%f3}; ", c.shape, c.typ)
		for i := range 4 {
			body += fmt.Sprintf("st.global.f32 [%%d1+%d], %%f%d; ", 4*i, i+4)
		}
		k := around(body)
		k.Threads = 32
		if err := run(t, k, 1, 1, words, nil); err != nil {
			t.Fatal(err)
		}
		for i, want := range sums {
			row, column := i/8, i%8
			lane, part := row%8*4+column/2, row/8*2+column%2
			if got := value(words[10*lane+part]); got != want {
				t.Errorf("%s %s: sum %d is %v; want %v", c.shape, c.typ, i, got, want)
			}
		}
	}
}

// TestLoadMatrices checks which elements ldmatrix gives to a lane.
func TestLoadMatrices(t *testing.T) {
	for _, across := range []string{"", ".trans"} {
		// row i of the matrices is at 16 times i; element e of shared memory is the number e
		k := around("shl.b32 %r2, %r0, 3; mad.lo.u32 %r3, %r0, 16, 0; " +
			"shl.b32 %r4, %r0, 3; or.b32 %r5, %r4, 0; add.u32 %r6, %r5, 1; shl.b32 %r6, %r6, 16; or.b32 %r6, %r6, %r5; " +
			"add.u32 %r7, %r6, 0x20002; add.u32 %r8, %r6, 0x40004; add.u32 %r9, %r6, 0x60006; " +
			"st.shared.v4.u32 [%r3], {%r6, %r7, %r8, %r9}; bar.sync 0; " +
			"ldmatrix.sync.aligned.m8n8.x4" + across + ".shared.b16 {%r10, %r11, %r12, %r13}, [%r3]; " +
			"mad.wide.u32 %d1, %r0, 16, %d0; st.global.v4.u32 [%d1], {%r10, %r11, %r12, %r13};")
		k.Threads, k.Shared = 32, 512
		got := make([]uint32, 4*32)
		if err := run(t, k, 1, 1, got, nil); err != nil {
			t.Fatal(err)
		}
		var want []uint32
		for l := range uint32(32) {
			for m := range uint32(4) {
				first, second := 64*m+8*(l/4)+2*(l%4), 64*m+8*(l/4)+2*(l%4)+1
				if across != "" {
					first, second = 64*m+8*(2*(l%4))+l/4, 64*m+8*(2*(l%4)+1)+l/4
				}
				want = append(want, first|second<<16)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("ldmatrix%s: %x; want %x", across, got, want)
		}
	}
}

// TestConversions compares conversions to f16 and bf16 with the values that are nearest.
func TestConversions(t *testing.T) {
	for _, c := range []struct {
		f       float64
		f16, bf uint32
	}{
		{0, 0, 0}, {1, 0x3c00, 0x3f80}, {-2, 0xc000, 0xc000}, {65504, 0x7bff, 0x4780}, {65519, 0x7bff, 0x4780},
		{65520, 0x7c00, 0x4780}, {0x1p-24, 1, 0x3380}, {0x1p-25, 0, 0x3300}, {0x1.8p-25, 1, 0x3340},
		{0x1p-14, 0x400, 0x3880}, {0x1.ff8p-15, 0x3ff, 0x3880}, {1 + 0x1p-8, 0x3c04, 0x3f80},
		{1 + 0x3p-8, 0x3c0c, 0x3f82},
		{math.Inf(1), 0x7c00, 0x7f80}, {math.Inf(-1), 0xfc00, 0xff80}, {0x1p-133, 0, 1}, {0x1p-134, 0, 0},
		{math.MaxFloat32, 0x7c00, 0x7f80},
	} {
		if got := narrow(c.f); got != c.f16 {
			t.Errorf("%v as f16: %#x; want %#x", c.f, got, c.f16)
		}
		if got := rounded(c.f, 8, -126) >> 16; got != c.bf {
			t.Errorf("%v as bf16: %#x; want %#x", c.f, got, c.bf)
		}
	}
}

// TestLogic compares functions of three bits with their definition, for all tables.
func TestLogic(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for table := range uint32(256) {
		a, b, c := rng.Uint32(), rng.Uint32(), rng.Uint32()
		got := logicOf(a, b, c, table)
		for bit := range 32 {
			of := func(w uint32) uint32 { return w >> bit & 1 }
			if want := table >> (4*of(a) + 2*of(b) + of(c)) & 1; of(got) != want {
				t.Fatalf("table %#x, bit %d of %#x, %#x and %#x is %d; want %d", table, bit, a, b, c, of(got), want)
			}
		}
	}
	if got, want := logicOf(0x12345678, 0x000f000f, 0x43004300, 0xea), uint32(0x43044308); got != want {
		t.Errorf("a & b | c is %#x; want %#x", got, want)
	}
}
