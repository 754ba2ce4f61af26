package kernels

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed fft.wgsl
var fftWGSL string

//go:embed fft_finish.wgsl
var fftFinishWGSL string

// fourier is a transform of rows of n numbers. If n has a prime factor that is not a radix, it uses transforms of m
// numbers (Bluestein, 1970).
type fourier struct {
	from, to string // layout of a row: "complex", "real" or "half", which has the first n/2+1 complex numbers
	inverse  bool
	n, m     int
	scale    float64
	in, out  int // elements per row
	passes   []int
}

func init() {
	complexOf := func(inverse bool) func(n *ir.Node, l Limits) fourier {
		return func(n *ir.Node, l Limits) fourier {
			size := lastSize(n) / 2
			return newFourier("complex", "complex", size, n.Attrs.(op.FFTAttrs).Norm, inverse, l)
		}
	}
	for name, of := range map[string]func(n *ir.Node, l Limits) fourier{
		"fft": complexOf(false), "ifft": complexOf(true),
		"rfft": func(n *ir.Node, l Limits) fourier {
			return newFourier("real", "half", lastSize(n), n.Attrs.(op.FFTAttrs).Norm, false, l)
		},
		"irfft": func(n *ir.Node, l Limits) fourier {
			a := n.Attrs.(op.IRFFTAttrs)
			return newFourier("half", "real", a.N, a.Norm, true, l)
		},
	} {
		register(Kernel{Op: name, Takes: "(f32)",
			Shaders: func(n *ir.Node, l Limits) []Shader { f := of(n, l); return f.shaders(l) },
			Scratch: func(n *ir.Node, l Limits) int64 {
				f := of(n, l)
				if f.m == f.n && len(f.passes) == 1 {
					return 0
				}
				most := n.Graph.Syms.Largest(n.Type.Shape)
				return int64(numel(most[:len(most)-1])) * 2 * int64(2*f.m) * 4
			},
		})
	}
}

func lastSize(n *ir.Node) int {
	x := n.In[0].Type
	return int(x.Shape[x.Rank()-1].Const)
}

func newFourier(from, to string, n int, norm string, inverse bool, l Limits) fourier {
	f := fourier{from: from, to: to, n: n, m: n, inverse: inverse, scale: op.FourierScale(norm, n, inverse)}
	if _, ok := smallFactors(n); !ok {
		f.m = 4
		for f.m < 2*n-1 {
			f.m *= 2
		}
	}
	f.passes = passesOf(f.m, l)
	size := map[string]int{"complex": 2 * n, "real": n, "half": 2 * (n/2 + 1)}
	f.in, f.out = size[from], size[to]
	return f
}

// smallFactors factors n into the radices of stages; ok is false if that is impossible.
func smallFactors(n int) (factors []int, ok bool) {
	for _, r := range []int{7, 5, 8, 4, 3, 2} {
		for n%r == 0 {
			factors, n = append(factors, r), n/r
		}
	}
	return factors, n == 1
}

// Radices of passes. A row of up to tilePass numbers fits workgroup memory twice and takes one pass. For longer rows a
// workgroup does several neighbouring transforms of radix up to manyPass at once, so that its reads are contiguous.
const (
	tilePass = 2048
	manyPass = 128
)

// passesOf returns the radices of the passes of a transform of m numbers: as few passes as possible, with about equal
// radices.
func passesOf(m int, l Limits) []int {
	if m <= tilePass && 16*m <= l.WorkgroupStorage {
		return []int{m}
	}
	factors, _ := smallFactors(m)
	for count := 2; ; count++ {
		passes := slices.Repeat([]int{1}, count)
		for _, r := range factors {
			least := slices.Index(passes, slices.Min(passes))
			passes[least] *= r
		}
		if slices.Max(passes) <= manyPass {
			return passes
		}
	}
}

// fftStage is a stage of a pass. Left and Done are the products of the radices of later and earlier stages, In and Out
// the tiles that it reads and writes.
type fftStage struct {
	Radix, Left, Done, In, Out int
	First, Last                bool
}

// shaders returns the passes (for Bluestein's convolution forward and backward) and the shader that handles values that
// are not finite.
func (f fourier) shaders(l Limits) []Shader {
	var all []Shader
	source := 0 // half of the scratch memory that has the current numbers
	transforms := 1
	if f.m != f.n {
		transforms = 2
	}
	for k := range transforms {
		done := 1
		for i, r := range f.passes {
			c := map[string]any{"N": f.n, "M": f.m, "Bins": f.n/2 + 1, "Inverse": f.inverse, "R": r, "Done": done,
				"Chirp": false, "Filter": false, "Turn": false,
				"From": "scratch", "To": "scratch", "Source": source, "Target": 1 - source}
			if k == 0 && i == 0 {
				c["From"], c["Chirp"] = f.from, transforms == 2
			}
			if end := i == len(f.passes)-1; end && k == transforms-1 {
				c["To"], c["Chirp"] = f.to, transforms == 2
			} else if end {
				c["Filter"] = true
			}
			c["Turn"] = k == 1 && i == 0
			all = append(all, f.pass(c, r, l))
			source, done = 1-source, done*r
		}
	}
	return append(all, f.finish())
}

// pass returns a shader that does transforms of r numbers.
func (f fourier) pass(c map[string]any, r int, l Limits) Shader {
	const most = 2048 // numbers of a workgroup; more would leave too few workgroups per processor
	factors, _ := smallFactors(r)
	if len(factors) == 0 {
		factors = []int{1}
	}
	whole := r == f.m // the pass transforms whole rows
	// Where the results of a transform are adjacent but its workgroup has adjacent transforms, they are written from a
	// tile.
	direct := whole || c["Done"].(int) > 1
	exchanges := len(factors)
	if direct {
		exchanges--
	}
	tiles := min(exchanges, 2)
	columns := max(1, min(l.WorkgroupStorage/16/r, most/r, 64))
	if !whole {
		columns = min(columns, 16)
	}
	lanes := 64
	if columns*r >= 1024 {
		lanes = 256
	}
	// In a tile of whole rows, adjacent invocations of the first stage would write 64 bytes apart, to the same banks of
	// workgroup memory.
	tileSize := columns * r
	padded := whole && 8*tiles*(tileSize+tileSize/8) <= l.WorkgroupStorage
	if padded {
		tileSize += tileSize / 8
	}
	var stages []fftStage
	radices := map[int]bool{}
	in, done := 1, 1
	for i, q := range factors {
		stages = append(
			stages, fftStage{Radix: q, Left: r / done / q, Done: done, In: in, Out: 1 - in, First: i == 0,
				Last: i == len(factors)-1})
		in, done, radices[q] = 1-in, done*q, true
	}
	type radix struct {
		R    int
		Body string
	}
	var bodies []radix
	for _, q := range []int{1, 2, 3, 4, 5, 7, 8} {
		if radices[q] {
			bodies = append(bodies, radix{q, dftBody(q)})
		}
	}
	const tableSize = 4096
	low, high := f.m, 0
	if f.m > tableSize {
		low = 1024
		high = ceilDiv(f.m, low)
	}
	for k, v := range map[string]any{"Columns": columns, "Lanes": lanes, "Stages": stages, "Radices": bodies,
		"Low": low, "High": high, "Result": in,
		"Whole": whole, "Direct": direct, "Tiles": downTo(tiles-1, 0), "TileSize": tileSize, "Padded": padded} {
		c[k] = v
	}
	s := Shader{Name: "fft", Body: fftWGSL, Consts: c, Fields: []string{"rows", "scale:f32", fmt.Sprint("low:2x", low)}}
	tables := [][]uint32{f.roots(low, 1)}
	if high > 0 {
		s.Fields = append(s.Fields, fmt.Sprint("high:2x", high))
		tables = append(tables, f.roots(high, low))
	}
	if c["Chirp"] == true {
		s.Fields = append(s.Fields, fmt.Sprint("chirp:2x", f.n))
		tables = append(tables, f.chirp())
	}
	if c["Filter"] == true {
		s.Fields = append(s.Fields, fmt.Sprint("filters:2x", f.m))
		tables = append(tables, f.filter())
	}
	if c["From"] == "scratch" || c["To"] == "scratch" {
		s.Bindings = append(s.Bindings, Binding{Name: "work", Operand: Scratch, DType: dtype.F32})
	}
	if c["From"] != "scratch" {
		s.Bindings = append(s.Bindings, Binding{Name: "x0", Operand: 0, DType: dtype.F32})
	}
	if c["To"] != "scratch" {
		s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, DType: dtype.F32})
	}
	table := slices.Concat(tables...)
	rows := func(c *Call) int { return numel(c.Out.Shape[:len(c.Out.Shape)-1]) }
	s.Params = func(c *Call) []uint32 {
		if rows(c) == 0 {
			return nil
		}
		return append([]uint32{uint32(rows(c)), math.Float32bits(float32(f.scale))}, table...)
	}
	s.Groups = func(c *Call) int { return ceilDiv(rows(c)*(f.m/r), columns) }
	s.Loops = func(*Call) int {
		n := 0
		if !direct {
			n = loop(ceilDiv(columns*r, lanes), 0)
		}
		for _, q := range stages {
			n += loop(ceilDiv(columns*r/q.Radix, lanes), 0)
		}
		return n
	}
	return s
}

// finish sets the results of rows with values that are not finite to NaN.
func (f fourier) finish() Shader {
	second := f.out / 2
	if f.to == "real" {
		second = min(1, f.n-1)
	}
	rows := func(c *Call) int { return numel(c.Out.Shape[:len(c.Out.Shape)-1]) }
	return Shader{
		Name: "fft_finish", Body: fftFinishWGSL, Fields: []string{"rows"},
		Consts:   map[string]any{"From": f.in, "To": f.out, "Second": second, "Half": f.from == "half"},
		Bindings: []Binding{{Name: "x0", Operand: 0, DType: dtype.F32}, {Name: "y", Operand: Out, DType: dtype.F32}},
		Params: func(c *Call) []uint32 {
			if rows(c) == 0 {
				return nil
			}
			return []uint32{uint32(rows(c))}
		},
		Groups: rows,
		Loops:  func(*Call) int { return loop(ceilDiv(f.in, 64), 0) + loop(ceilDiv(f.out, 64), 0) },
	}
}

// words returns the parts of a complex number as f32 bits.
func words(z complex128) []uint32 {
	return []uint32{math.Float32bits(float32(real(z))), math.Float32bits(float32(imag(z)))}
}

// unitRoot returns e^(-2 pi i k/n).
func unitRoot(k, n int) complex128 {
	sin, cos := math.Sincos(2 * math.Pi * float64(k%n) / float64(n))
	return complex(cos, -sin)
}

// roots returns e^(-2 pi i k step/m) for k < count.
func (f fourier) roots(count, step int) (table []uint32) {
	for k := range count {
		table = append(table, words(unitRoot(k*step, f.m))...)
	}
	return table
}

// chirp returns e^(-pi i j^2/n) for each j.
func (f fourier) chirp() (table []uint32) {
	for j := range f.n {
		table = append(table, words(unitRoot(j*j%(2*f.n), 2*f.n))...)
	}
	return table
}

// filter returns the transform of m conjugates of the chirp.
func (f fourier) filter() (table []uint32) {
	z := make([]complex128, f.m)
	for j := range f.n {
		c := unitRoot(j*j%(2*f.n), 2*f.n)
		z[j] = complex(real(c), -imag(c))
		z[(f.m-j)%f.m] = z[j]
	}
	for _, v := range powerOfTwo(z) {
		table = append(table, words(v/complex(float64(f.m), 0))...)
	}
	return table
}

// powerOfTwo returns the transform of x, whose length must be a power of two.
func powerOfTwo(x []complex128) []complex128 {
	n := len(x)
	if n == 1 {
		return x
	}
	half := make([]complex128, n)
	for i := range n / 2 {
		half[i], half[n/2+i] = x[2*i], x[2*i+1]
	}
	even, odd := powerOfTwo(half[:n/2]), powerOfTwo(half[n/2:])
	y := make([]complex128, n)
	for k := range n / 2 {
		t := unitRoot(k, n) * odd[k]
		y[k], y[n/2+k] = even[k]+t, even[k]-t
	}
	return y
}

// dftBody returns the body of a WGSL function that transforms r numbers a.
func dftBody(r int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	switch r {
	case 2:
		line("return array<vec2<f32>, 2>(a[0] + a[1], a[0] - a[1]);")
		return b.String()
	case 4:
		line(
			"let p = a[0] + a[2];\n  let q = a[0] - a[2];\n  let u = a[1] + a[3];\n  let d = a[1] - a[3];\n  let v = vec2<f32>(d.y, -d.x);")
		line("return array<vec2<f32>, 4>(p + u, q + v, p - u, q - v);")
		return b.String()
	case 8:
		// Combines the transforms of the even and the odd numbers; the k-th odd one is rotated by k eighths of a turn.
		for i, half := range []string{"e", "o"} {
			for j := range 2 {
				line("let %[1]sp%[2]d = a[%[3]d] + a[%[4]d];\n  let %[1]sm%[2]d = a[%[3]d] - a[%[4]d];", half, j, i+2*j,
					i+2*j+4)
			}
			line("let %[1]st = vec2<f32>(%[1]sm1.y, -%[1]sm1.x);", half)
			line(
				"let %[1]s0 = %[1]sp0 + %[1]sp1;\n  let %[1]s1 = %[1]sm0 + %[1]st;\n  let %[1]s2 = %[1]sp0 - %[1]sp1;\n  let %[1]s3 = %[1]sm0 - %[1]st;",
				half)
		}
		line("let t1 = %.9g * vec2<f32>(o1.x + o1.y, o1.y - o1.x);", math.Sqrt2/2)
		line("let t2 = vec2<f32>(o2.y, -o2.x);\n  let t3 = %.9g * vec2<f32>(o3.y - o3.x, -o3.y - o3.x);", math.Sqrt2/2)
		line("return array<vec2<f32>, 8>(e0 + o0, e1 + t1, e2 + t2, e3 + t3, e0 - o0, e1 - t1, e2 - t2, e3 - t3);")
		return b.String()
	}
	// Numbers j and r-j are added and subtracted once for all sums.
	sum := "a[0]"
	for j := 1; j <= r/2; j++ {
		line("let p%d = a[%d] + a[%d];\n  let d%d = a[%d] - a[%d];\n  let q%d = vec2<f32>(d%d.y, -d%d.x);", j, j, r-j,
			j, j, r-j, j, j, j)
		sum += fmt.Sprintf(" + p%d", j)
	}
	results := make([]string, r)
	results[0] = sum
	for k := 1; k <= r/2; k++ {
		e, o := "a[0]", "vec2<f32>(0.0, 0.0)"
		for j := 1; j <= r/2; j++ {
			w := unitRoot(j*k, r)
			e += fmt.Sprintf(" + (%.9g) * p%d", real(w), j)
			o += fmt.Sprintf(" + (%.9g) * q%d", -imag(w), j)
		}
		line("let e%d = %s;\n  let o%d = %s;", k, e, k, o)
		results[k], results[r-k] = fmt.Sprintf("e%d + o%d", k, k), fmt.Sprintf("e%d - o%d", k, k)
	}
	line("return array<vec2<f32>, %d>(%s);", r, strings.Join(results, ", "))
	return b.String()
}
