package main

// neonCast writes the routines of genCast. NEON's conversion to integers truncates, saturates and turns NaN into 0.
func neonCast(file *neonFile) {
	truncated := func(f *neonFunc, x vec8) vec8 { return f.lanewise(x, 0x4ea1b800, "fcvtzs") }
	neonConvert(file, "f32", "i32", 32, 32, func(f *neonFunc, src, dst gpr) {
		y := truncated(f, f.loadPair(src, 0))
		f.store(dst, 0, y[:]...)
	})
	for _, to := range []struct {
		name string
		word uint32
		gnu  string
	}{{"i8", 0x0e214800, "sqxtn v%d.8b, v%d.8h"}, {"u8", 0x2e212800, "sqxtun v%d.8b, v%d.8h"}} {
		neonConvert(file, "f32", to.name, 32, 8, func(f *neonFunc, src, dst gpr) {
			y, r := truncated(f, f.loadPair(src, 0)), f.reg()
			f.word(0x0e614800, "sqxtn v%d.4h, v%d.4s", r, y[0])
			f.word(0x4e614800, "sqxtn2 v%d.8h, v%d.4s", r, y[1])
			f.word(to.word, to.gnu, r, r)
			f.ins("FMOVD F%v, (%v)", r, dst)
		})
	}
	neonConvert(file, "f32", "bool", 32, 8, func(f *neonFunc, src, dst gpr) {
		f.storeTruth(f.op2("fcmeq", f.loadPair(src, 0), f.zero()), f.bits(0x01010101), true, dst)
	})
	floats := func(f *neonFunc, x vec8) vec8 { return f.lanewise(x, 0x4e21d800, "scvtf") }
	neonConvert(file, "i32", "f32", 32, 32, func(f *neonFunc, src, dst gpr) {
		y := floats(f, f.loadPair(src, 0))
		f.store(dst, 0, y[:]...)
	})
	for _, from := range []struct {
		name string
		base uint32
		gnu  string
	}{{"i8", 0x0f00a400, "sxtl"}, {"u8", 0x2f00a400, "uxtl"}, {"bool", 0x2f00a400, "uxtl"}} {
		neonConvert(file, from.name, "f32", 8, 32, func(f *neonFunc, src, dst gpr) {
			x, y := f.reg(), f.pair()
			f.ins("FMOVD (%v), F%v", src, x)
			if from.name == "bool" {
				f.word(0x6e206c00, "umin v%d.16b, v%d.16b, v%d.16b", x, x, f.bits(0x01010101))
			}
			f.word(from.base|0x080000, from.gnu+" v%d.8h, v%d.8b", x, x)
			f.word(from.base|0x100000, from.gnu+" v%d.4s, v%d.4h", y[0], x)
			f.word(from.base|0x40100000, from.gnu+"2 v%d.4s, v%d.8h", y[1], x)
			y = floats(f, y)
			f.store(dst, 0, y[:]...)
		})
	}
}

// neonConvert writes a conversion of eight elements at a time. Sizes of elements are in bytes.
func neonConvert(file *neonFile, from, to string, fromSize, toSize int, do func(f *neonFunc, src, dst gpr)) {
	function := from + "_" + to
	f := file.add(symbol(function)+"Cast", "dst *uint8, src *uint8, blocks int", "",
		"converts blocks*lanes elements of "+from+" to "+to+"; blocks > 0.")
	file.list("cast", function, "")
	dst, src, n := f.param("dst"), f.param("src"), f.param("blocks")
	if from == "bool" || to == "bool" {
		f.useConstants()
	}
	f.label("loop")
	do(f, src, dst)
	f.ins("ADD $%v, %v, %v", fromSize, src, src)
	f.ins("ADD $%v, %v, %v", toSize, dst, dst)
	f.count(n, "loop")
	f.ret()
}
