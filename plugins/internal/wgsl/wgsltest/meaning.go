// Package wgsltest tests whether WGSL keeps its meaning when a back end translates it.
package wgsltest

import (
	"math"
	"math/bits"
	"testing"
)

// Meaning is a kernel that computes sixteen results from each pair of words. WGSL defines them; other languages leave
// many of them undefined. Its bindings are the pairs and the results; a workgroup has 32 pairs.
const Meaning = `
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

var names = []string{"p + q", "p * q", "-p", "a / b", "a % b", "p / q", "p % q", "a << b", "p >> b",
	"p >> b of a vector", "u32(f32)", "i32(f32)", "round", "countLeadingZeros", "unpack2x16float", "vec4 / b"}

var special = []uint32{0, 1, 2, 3, 7, 31, 32, 33, 1000, 1 << 31, 1<<31 - 1, 1<<32 - 1, 1<<32 - 2, 0x3f800000,
	0x40200000, 0x4effffff, 0x4f000000, 0x4f7fffff, 0x4f800000,
	0x7f800000, 0xff800000, 0x7fc00000, 0xbf800000, 0xcf000000, 0xcf000001, 0x00010000, 0x3c000000, 0x03ff0000,
	0x80010000, 0x7bff0000, 0xfc000000, 0x38000000}

// Pairs returns words a and b in turn for the kernel Meaning: 1024 pairs of special values.
func Pairs() (out []uint32) {
	for _, a := range special {
		for _, b := range special {
			out = append(out, a, b)
		}
	}
	return out
}

// Check compares the results of the kernel Meaning for Pairs with those of Go, whose language or package math defines
// the operations.
func Check(t *testing.T, results []uint32) {
	t.Helper()
	pairs := Pairs()
	for i := range len(pairs) / 2 {
		a, b := pairs[2*i], pairs[2*i+1]
		for k, want := range defined(a, b) {
			got := results[16*i+k]
			if got != want && !(names[k] == "unpack2x16float" && isNaN(got) && isNaN(want)) {
				t.Errorf("%s of %#x, %#x: %#x; want %#x", names[k], a, b, got, want)
			}
		}
	}
}

func isNaN(bits uint32) bool { return bits&0x7fffffff > 0x7f800000 }

// defined returns the sixteen results of the kernel Meaning.
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
