//go:build linux

package shim

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// dev is a device with compiled kernels and a buffer.
type dev struct {
	*opened
	made   []gpu.Pipeline
	buffer *buffer
	memory []byte
}

// dir is the cache folder that all tests share, so that host.cc is compiled only once.
var dir string

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "metal-shim"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// start opens a device, compiles a kernel for each of the WGSL texts, and makes a buffer of the given size.
func start(t *testing.T, bytes int64, texts ...string) dev {
	t.Helper()
	opens, err := adapter{Options{Cache: dir, Level: "-O0"}}.Open()
	if errors.Is(err, ErrNoCompiler) && os.Getenv("RLX_REQUIRE_CXX") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := dev{opened: opens.(*opened)}
	var sources []gpu.Source
	for _, text := range texts {
		sources = append(sources, gpu.Source{Text: text})
	}
	if d.made, _, err = d.Compile(sources); err != nil {
		t.Fatal(err)
	}
	b, err := d.NewBuffer("test", bytes, gpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	d.buffer, d.memory = b.(*buffer), b.Bytes(bytes)
	return d
}

// run runs a kernel on a grid of x by y threadgroups. Each pair of ranges is the offset and size of a range of the
// buffer, which the kernel gets as a binding.
func (d dev) run(kernel int, x, y uint32, ranges ...int64) error {
	var pieces []gpu.Piece
	for i := 0; i < len(ranges); i += 2 {
		pieces = append(pieces, gpu.Piece{Buffer: d.buffer, Offset: ranges[i], Size: ranges[i+1]})
	}
	b, _ := d.Bind("", nil, pieces)
	e, _ := d.NewEncoder("")
	e.Dispatch(d.made[kernel], b, x, y)
	c, _ := e.Finish()
	if err := d.Submit(c); err != nil {
		return err
	}
	for {
		if idle, err := d.Poll(); idle || err != nil {
			return err
		}
	}
}

// meaning is a kernel that computes sixteen results from words a and b. WGSL defines them; C++ leaves many of them
// undefined.
const meaning = `
@group(0) @binding(0) var<storage, read_write> x: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
fn sign_of(v: vec4<i32>, by: vec4<u32>) -> i32 { return (v >> by).z; }
@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 32u + local;
  let a = x[i].x;
  let b = x[i].y;
  let p = bitcast<i32>(a);
  let q = bitcast<i32>(b);
  y[16u * i] = bitcast<u32>(p + q);
  y[16u * i + 1u] = bitcast<u32>(p * q);
  y[16u * i + 2u] = bitcast<u32>(-p);
  y[16u * i + 3u] = a / b;
  y[16u * i + 4u] = a % b;
  y[16u * i + 5u] = bitcast<u32>(p / q);
  y[16u * i + 6u] = bitcast<u32>(p % q);
  y[16u * i + 7u] = a << b;
  y[16u * i + 8u] = bitcast<u32>(p >> b);
  y[16u * i + 9u] = bitcast<u32>(sign_of(vec4<i32>(p), vec4<u32>(b)));
  y[16u * i + 10u] = u32(bitcast<f32>(a));
  y[16u * i + 11u] = bitcast<u32>(i32(bitcast<f32>(a)));
  y[16u * i + 12u] = bitcast<u32>(round(f32(p % 1000) * 0.5));
  y[16u * i + 13u] = countLeadingZeros(a);
  y[16u * i + 14u] = bitcast<u32>(unpack2x16float(a).y);
  y[16u * i + 15u] = (vec4<u32>(a, b, a, b) / b).w;
}
`

// TestMeaning compares the results of the kernel meaning with those of Go, whose language or package math defines the
// operations.
func TestMeaning(t *testing.T) {
	special := []uint32{0, 1, 2, 3, 7, 31, 32, 33, 1000, 1 << 31, 1<<31 - 1, 1<<32 - 1, 1<<32 - 2, 0x3f800000,
		0x40200000, 0x4effffff, 0x4f000000, 0x4f7fffff, 0x4f800000,
		0x7f800000, 0xff800000, 0x7fc00000, 0xbf800000, 0xcf000000, 0xcf000001, 0x00010000, 0x3c000000, 0x03ff0000,
		0x80010000, 0x7bff0000, 0xfc000000, 0x38000000}
	n := len(special) * len(special)
	d := start(t, 1<<20, meaning)
	const y = 1 << 14
	for i := range n {
		binary.LittleEndian.PutUint32(d.memory[8*i:], special[i/len(special)])
		binary.LittleEndian.PutUint32(d.memory[8*i+4:], special[i%len(special)])
	}
	if err := d.run(0, 4, uint32(n/32/4), 0, int64(8*n), y, int64(64*n)); err != nil {
		t.Fatal(err)
	}
	names := []string{"p + q", "p * q", "-p", "a / b", "a % b", "p / q", "p % q", "a << b", "p >> b",
		"p >> b of a vector", "u32(f32)", "i32(f32)", "round", "countLeadingZeros", "unpack2x16float", "vec4 / b"}
	for i := range n {
		a, b := special[i/len(special)], special[i%len(special)]
		for k, want := range defined(a, b) {
			if got := binary.LittleEndian.Uint32(d.memory[y+4*(16*i+k):]); got != want {
				t.Errorf("%s of %#x, %#x: %#x; want %#x", names[k], a, b, got, want)
			}
		}
	}
}

// TestSwizzles: components of vectors in any order and number, and operators between them.
func TestSwizzles(t *testing.T) {
	d := start(t, 64, `
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
fn digits(v: vec4<u32>) -> u32 { return v.x * 1000u + v.y * 100u + v.z * 10u + v.w; }
@compute @workgroup_size(1)
fn main() {
  let v = vec4<u32>(1u, 2u, 3u, y[0]);
  y[0] = digits(v.wzyx);
  y[1] = digits(v.yyww * v.yxwz + v.xxzz);
  y[2] = digits(vec4<u32>(v.zw.yx, v.xyz.zy));
  y[3] = digits(vec4<u32>(vec2<u32>(2u, 3u).yx, max(v.wx, v.yz)));
}
`)
	binary.LittleEndian.PutUint32(d.memory, 4)
	if err := d.run(0, 1, 1, 0, 16); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint32{4321, 5000 + 300 + 190 + 15, 4332, 3243} {
		if got := binary.LittleEndian.Uint32(d.memory[4*i:]); got != want {
			t.Errorf("word %d is %d; want %d", i, got, want)
		}
	}
}

// defined returns the sixteen results of the kernel meaning.
func defined(a, b uint32) [16]uint32 {
	p, q := int32(a), int32(b)
	quotient, rest, signed, left := a, uint32(0), p, int32(0)
	if b != 0 {
		quotient, rest, signed, left = a/b, a%b, p/q, p%q // Go's wrap, too
	}
	word, whole := uint32(0), int32(0)
	switch f := float64(math.Float32frombits(a)); {
	case f != f:
	case f > 0:
		word, whole = uint32(min(f, 1<<32-256)), int32(min(f, 1<<31-128))
	default:
		whole = int32(max(f, -1<<31))
	}
	one := uint32(1)
	if b == 0 {
		one = b
	}
	return [16]uint32{uint32(p + q), uint32(p * q), uint32(-p), quotient, rest, uint32(signed), uint32(left),
		a << (b & 31), uint32(p >> (b & 31)), uint32(p >> (b & 31)),
		word, uint32(whole), math.Float32bits(float32(math.RoundToEven(float64(p%1000) * 0.5))),
		uint32(bits.LeadingZeros32(a)), widened(uint16(a >> 16)), one}
}

// widened converts a binary16 to a binary32 (IEEE 754).
func widened(h uint16) uint32 {
	sign, e, m := uint32(h>>15)<<31, int(h>>10&31), float64(h&1023)
	switch {
	case e == 31 && m == 0:
		return sign | 0x7f800000
	case e == 31:
		return sign | 0x7fc00000
	case e == 0:
		return sign | math.Float32bits(float32(math.Ldexp(m, -24)))
	}
	return sign | math.Float32bits(float32(math.Ldexp(m+1024, e-25)))
}

// TestThreads checks that threads see each other's writes to workgroup memory after a barrier, and not all of them
// without one; that workgroup memory starts as zeros; that a read beyond an array reads its last element and a write
// beyond a buffer is dropped; and that a thread that ends while others wait at a barrier is an error.
func TestThreads(t *testing.T) {
	const head = `
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
var<workgroup> words: array<u32, 64>;
var<workgroup> total: atomic<u32>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
`
	reversed := (head +
		"  atomicAdd(&total, local + words[local]);\n  workgroupBarrier();\n  words[local] = local;\n  workgroupBarrier();\n" +
		"  y[64u * group.x + local] = words[63u - local] + 1000u * atomicLoad(&total);\n}\n")
	hasty := (head + "  words[local] = local + 1u;\n  y[local] = words[63u - local];\n  workgroupBarrier();\n}\n")
	early := (head + "  if (local == 5u) { return; }\n  workgroupBarrier();\n}\n")
	beyond := (head +
		"  words[local] = local;\n  workgroupBarrier();\n  let v = y[1000u + local];\n  y[1000u + local] = 7u;\n  workgroupBarrier();\n" +
		"  if (local < 2u) {\n    y[local] = words[local + 62u + 2u * local] + v;\n  }\n}\n")
	d := start(t, 1<<12, reversed, hasty, early, beyond)
	if err := d.run(0, 3, 1, 0, 3*64*4); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * 64 {
		if got, want := binary.LittleEndian.Uint32(d.memory[4*i:]), uint32(63-i%64+1000*64*63/2); got != want {
			t.Errorf("word %d is %d; want %d", i, got, want)
		}
	}
	if err := d.run(1, 1, 1, 0, 64*4); err != nil {
		t.Fatal(err)
	}
	if a, b := binary.LittleEndian.Uint32(d.memory), binary.LittleEndian.Uint32(d.memory[4*63:]); a == 64 && b == 1 {
		t.Error("without a barrier the first and the last thread see each other's words")
	}
	if err := d.run(2, 1, 1, 0, 64*4); err == nil || !strings.Contains(err.Error(), "wait for others that have ended") {
		t.Errorf("a thread ends while others wait: %v", err)
	}
	copy(d.memory, make([]byte, 64))
	binary.LittleEndian.PutUint32(d.memory[3*4:], 1000)
	if err := d.run(3, 1, 1, 0, 4*4); err != nil {
		t.Errorf("a run after a failed one: %v", err)
	}
	for i, want := range []uint32{1062, 1063, 0, 1000, 0} {
		if got := binary.LittleEndian.Uint32(d.memory[4*i:]); got != want {
			t.Errorf("beyond the ends of arrays, word %d is %d; want %d", i, got, want)
		}
	}
}

// TestWriteAfterClear checks that a write to a state takes effect after an earlier clear.
func TestWriteAfterClear(t *testing.T) {
	s, err := New(Options{Cache: dir, Level: "-O0"}).NewState(t.Context(), "", 256<<20)
	if errors.Is(err, ErrNoCompiler) && os.Getenv("RLX_REQUIRE_CXX") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want, got := []byte{1, 2, 3, 4}, make([]byte, 4)
	if err := errors.Join(s.Clear(t.Context()), s.Write(t.Context(), 255<<20, want),
		s.Read(t.Context(), 255<<20, got)); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}
