package shim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/plugins/cuda/ptx"
)

// TestGroupRegisters multiplies a 64x16 matrix in registers by one of 16x64 that lies across K, and expects an error if
// an operand changes before the product is waited for.
func TestGroupRegisters(t *testing.T) {
	const threads, n, each = 128, 64, 4 + 4 + 32 // words of a thread: of both matrices, and the sums
	var a [64][16]int
	var b [16][n]int
	rng := rand.New(rand.NewPCG(1, 2))
	small := func() (v int, bits uint32) {
		v = rng.IntN(9) - 4
		return v, number(float32(v)) >> 16
	}
	words := make([]uint32, threads*each)
	for l := range threads {
		for i := range 4 {
			for h := range 2 {
				v, bits := small()
				a[l/warp*16+l%warp/4+i%2*8][l%4*2+h+i/2*8] = v
				words[l*each+i] |= bits << (16 * h)
				v, bits = small()
				at := 16*l + 4*i + 2*h // in shared memory
				row := at / 128
				b[row][(at/16%8^row%8)*8+at%16/2] = v
				words[l*each+4+i] |= bits << (16 * h)
			}
		}
	}
	var sums []string
	for i := range 32 {
		sums = append(sums, fmt.Sprintf("%%f%d", i))
	}
	for _, c := range []struct{ before, want string }{
		{"", ""},
		{"mov.u32 %r4, 0;", "%r4 is an operand of a product that is not waited for"},
		{"mov.f32 %f3, 0f00000000;", "%f3 is a sum of a product that is not waited for"},
	} {
		body := []string{"ld.param.u64 %d0, [x];", "mov.u32 %r0, %tid.x;",
			fmt.Sprintf("mad.wide.u32 %%d1, %%r0, %d, %%d0;", 4*each),
			"ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d1];", "ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%d1+16];",
			"shl.b32 %r1, %r0, 4;", "st.shared.v4.u32 [%r1], {%r6, %r7, %r8, %r9};",
			"fence.proxy.async.shared::cta;", "bar.sync 0;", "setp.ne.u32 %p0, 0, 0;"}
		for _, s := range sums {
			body = append(body, "mov.f32 "+s+", 0f00000000;")
		}
		body = append(body, fmt.Sprintf("mov.b64 %%d2, %#x;", uint64(1)<<62|1024>>4<<32), "wgmma.fence.sync.aligned;",
			"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"+strings.Join(sums, ", ")+
				"}, {%r2, %r3, %r4, %r5}, %d2, %p0, 1, 1, 1;", "wgmma.commit_group.sync.aligned;", c.before,
			"wgmma.wait_group.sync.aligned 0;")
		for i, s := range sums {
			body = append(body, fmt.Sprintf("st.global.f32 [%%d1+%d], %s;", 4*(8+i), s))
		}
		k := &ptx.Kernel{Threads: threads, Dynamic: 2048, Text: ".visible .entry rlx_main(\n.param .u64 x,\n" +
			".param .u64 x_bytes\n)\n{\n.reg .pred %p<1>;\n.reg .b32 %r<10>;\n.reg .f32 %f<32>;\n.reg .b64 %d<3>;\n" +
			strings.Join(body, "\n") + "\nret;\n}\n"}
		err := run(t, k, 1, 1, words, nil)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %s", err, c.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for l := range threads {
			for i := range 32 {
				row, column := l/warp*16+l%warp/4+i/2%2*8, i/4*8+l%4*2+i%2
				want := 0
				for k := range 16 {
					want += a[row][k] * b[k][column]
				}
				if got := value(words[l*each+8+i]); got != float64(want) {
					t.Fatalf("sum %d, %d is %v; want %d", row, column, got, want)
				}
			}
		}
	}
}

// TestDivided: a branch over code between two products with left operands in registers is refused, but not one over a
// product, over code before a loop that has the second one, or to another place.
func TestDivided(t *testing.T) {
	var sums []string
	for i := range 32 {
		sums = append(sums, fmt.Sprintf("%%f%d", i))
	}
	product := "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" + strings.Join(sums, ", ") +
		"}, {%r2, %r3, %r4, %r5}, %d0, %p0, 1, 1, 1;"
	const skip, code = "@%p0 bra.uni L;", "mov.u32 %r0, 0;"
	for _, c := range []struct {
		list    []string
		refused bool
	}{
		{[]string{product, skip, code, "L:", product}, true},
		{[]string{product, code, skip, code, "L:", code, product}, true},
		{[]string{"M:", product, skip, code, "L:", product, "@%p0 bra.uni M;"}, true},
		{[]string{skip, product, "L:", product}, false},
		{[]string{product, code, product, skip, code, "L:"}, false},
		{[]string{product, skip, code, "L:", "M:", product, "@%p0 bra.uni M;"}, false},
		{[]string{skip, product, "bra.uni M;", "L:", product, "M:"}, false},
		{[]string{product, skip, product, "L:"}, false},
	} {
		body := []string{"setp.ne.u32 %p0, 0, 0;", "mov.b64 %d0, 0;"}
		for i := range 6 {
			body = append(body, fmt.Sprintf("mov.u32 %%r%d, 0;", i))
		}
		for _, s := range sums {
			body = append(body, "mov.f32 "+s+", 0f00000000;")
		}
		text := ".visible .entry rlx_main(\n)\n{\n.reg .pred %p<1>;\n.reg .b32 %r<6>;\n.reg .f32 %f<32>;\n" +
			".reg .b64 %d<1>;\n" + strings.Join(append(body, c.list...), "\n") + "\nret;\n}\n"
		_, err := assemble(&ptx.Kernel{Threads: 128, Text: text}, 0)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "a branch between products") {
			t.Errorf("error %v of %q; want one: %t", err, c.list, c.refused)
		}
	}
}
