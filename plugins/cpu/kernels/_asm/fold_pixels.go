package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// foldPixels writes the reduction of windows of pixels with adjacent channels.
func foldPixels(v vec, f fold) {
	routine := f.name + "Pixels" + v.name
	entries = append(entries, entry{"foldPixels", v.name, f.name, routine})
	TEXT(routine, NOSPLIT, "func(dst, x *float32, n, wide, high, down, step, pixels int)")
	Doc(routine + " is dst[p*n+c] = the " + f.name +
		" of x[p*step + i*down + j*n + c] over i < high and j < wide, for p < pixels and c < n; all sizes > 0.")
	Pragma("noescape")
	dst, x, pixel, down, step := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64()),
		Load(Param("down"), GP64()), Load(Param("step"), GP64())
	for _, r := range []Op{pixel, down, step} {
		SHLQ(U8(2), r)
	}
	pixels := Load(Param("pixels"), GP64())
	n, at, line, row, high, wide := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	Label("pixel")
	Load(Param("n"), n)
	XORQ(at, at)
	v.sweep("pixel", n, at, func(s *sweep) {
		where := "whole"
		if s.mask != nil {
			where = "rest"
		}
		acc := v.load(f32(f.start))
		var seen nanLanes // the accumulator ignores NaN
		if f.nan {
			seen = v.noNaN()
		}
		MOVQ(x, line)
		Load(Param("high"), high)
		Label(where + "High")
		MOVQ(line, row)
		Load(Param("wide"), wide)
		Label(where + "Wide")
		y := s.load(row, nil)
		f.instruction(acc, y, acc)
		if f.nan {
			seen.add(y, y)
		}
		ADDQ(pixel, row)
		DECQ(wide)
		JNE(LabelRef(where + "Wide"))
		ADDQ(down, line)
		DECQ(high)
		JNE(LabelRef(where + "High"))
		if f.nan {
			seen.mark(acc)
		}
		s.store(acc, dst)
	})
	ADDQ(pixel, dst)
	ADDQ(step, x)
	DECQ(pixels)
	JNE(LabelRef("pixel"))
	VZEROUPPER()
	RET()
}
