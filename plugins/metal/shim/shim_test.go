//go:build linux

package shim

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/wgsl/wgsltest"
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

// TestMeaning checks that the translation keeps the meaning of operations that C++ leaves undefined.
func TestMeaning(t *testing.T) {
	pairs := wgsltest.Pairs()
	n := int64(len(pairs) / 2)
	d := start(t, 1<<20, wgsltest.Meaning)
	const y = 1 << 14
	for i, w := range pairs {
		binary.LittleEndian.PutUint32(d.memory[4*i:], w)
	}
	if err := d.run(0, 4, uint32(n/32/4), 0, 8*n, y, 64*n); err != nil {
		t.Fatal(err)
	}
	results := make([]uint32, 16*n)
	for i := range results {
		results[i] = binary.LittleEndian.Uint32(d.memory[y+4*i:])
	}
	wgsltest.Check(t, results)
}

// TestSwizzles checks components of vectors in any order and number, and operators between them.
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
