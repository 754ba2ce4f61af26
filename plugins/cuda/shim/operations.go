package shim

import (
	"maps"
	"math"
	"math/bits"
	"strings"
)

// operation is an instruction that only computes. takes is described at operands.
type operation struct {
	takes string
	run   func(m *machine, in *instruction, lanes []int32)
}

// special holds the operands of mov.u32 that are not registers of the text.
var special = map[string]func(m *machine, in *instruction, lanes []int32){
	"memory": func(m *machine, in *instruction, lanes []int32) { m.set(in, lanes, 0) }, // of package matrix
	"shared": func(m *machine, in *instruction, lanes []int32) { m.set(in, lanes, 0) },
	"%tid.x": func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.words[in.a[0]][l] = uint32(l)
		}
	},
	"%ctaid.x":  func(m *machine, in *instruction, lanes []int32) { m.set(in, lanes, m.ctaid[0]) },
	"%ctaid.y":  func(m *machine, in *instruction, lanes []int32) { m.set(in, lanes, m.ctaid[1]) },
	"%ctaid.z":  func(m *machine, in *instruction, lanes []int32) { m.set(in, lanes, m.ctaid[2]) },
	"%nctaid.x": func(m *machine, in *instruction, lanes []int32) { m.set(in, lanes, m.nctaid[0]) },
	"%nctaid.y": func(m *machine, in *instruction, lanes []int32) { m.set(in, lanes, m.nctaid[1]) },
	"%nctaid.z": func(m *machine, in *instruction, lanes []int32) { m.set(in, lanes, m.nctaid[2]) },
}

// set writes a word for all lanes.
func (m *machine) set(in *instruction, lanes []int32, n uint32) {
	for _, l := range lanes {
		m.words[in.a[0]][l] = n
	}
}

// words1, words2 and words3 make operations on words of a loop over the lanes.
func words1(class string, f func(d, a []uint32, lanes []int32)) operation {
	return operation{class, func(m *machine, in *instruction, lanes []int32) {
		f(m.words[in.a[0]], m.words[in.a[1]], lanes)
	}}
}

func words2(class string, f func(d, a, b []uint32, lanes []int32)) operation {
	return operation{class, func(m *machine, in *instruction, lanes []int32) {
		f(m.words[in.a[0]], m.words[in.a[1]], m.words[in.a[2]], lanes)
	}}
}

// compared makes a comparison.
func compared(class string, f func(d []bool, a, b []uint32, lanes []int32)) operation {
	return operation{"p=" + class + class, func(m *machine, in *instruction, lanes []int32) {
		f(m.bools[in.a[0]], m.words[in.a[1]], m.words[in.a[2]], lanes)
	}}
}

// each1 and each2 make operations on words of a function of one lane, which is slower than a loop.
func each1(class string, f func(a uint32) uint32) operation {
	return words1(class, func(d, a []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = f(a[l])
		}
	})
}

func each2(class string, f func(a, b uint32) uint32) operation {
	return words2(class, func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = f(a[l], b[l])
		}
	})
}

// float1 makes an operation of a function of floats.
func float1(f func(x float64) float64) operation {
	return each1("f=f", func(a uint32) uint32 { return number(float32(f(value(a)))) })
}

// logic makes an operation on bools.
func logic(f func(a, b bool) bool) operation {
	return operation{"p=pp", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.bools[in.a[0]][l] = f(m.bools[in.a[1]][l], m.bools[in.a[2]][l])
		}
	}}
}

// doubles makes an operation on a word of 64 bits and a constant.
func doubles(f func(a, b uint64) uint64) operation {
	return operation{"d=dd", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.doubles[in.a[0]][l] = f(m.doubles[in.a[1]][l], m.doubles[in.a[2]][l])
		}
	}}
}

var (
	move = func(d, a []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = a[l]
		}
	}
	add = func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = a[l] + b[l]
		}
	}
	sub = func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = a[l] - b[l]
		}
	}
	mul = func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = a[l] * b[l]
		}
	}
	addFloats = func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = number(math.Float32frombits(a[l]) + math.Float32frombits(b[l]))
		}
	}
	subFloats = func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = number(math.Float32frombits(a[l]) - math.Float32frombits(b[l]))
		}
	}
	mulFloats = func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = number(math.Float32frombits(a[l]) * math.Float32frombits(b[l]))
		}
	}
	equal = func(d []bool, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = a[l] == b[l]
		}
	}
	unequal = func(d []bool, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = a[l] != b[l]
		}
	}
)

// choose makes a selp for registers of a class.
func choose(class string) operation {
	return operation{class + "=" + class + class + "p", func(m *machine, in *instruction, lanes []int32) {
		d, a, b, p := m.words[in.a[0]], m.words[in.a[1]], m.words[in.a[2]], m.bools[in.a[3]]
		for _, l := range lanes {
			if p[l] {
				d[l] = a[l]
			} else {
				d[l] = b[l]
			}
		}
	}}
}

// pairs makes a conversion of two floats to the halves of a word, the first to the upper half.
func pairs(f func(x float64) uint32) operation {
	return words2("r=ff", func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = f(value(a[l]))<<16 | f(value(b[l]))&0xffff
		}
	})
}

// joined adds comparisons whose result is combined with a predicate, such as setp.lt.and.u32, for all comparisons.
func joined(all map[string]operation) map[string]operation {
	for name, o := range maps.Clone(all) {
		compare, isCompare := strings.CutPrefix(name, "setp.")
		op, typ, ok := strings.Cut(compare, ".")
		if !isCompare || !ok {
			continue
		}
		join := func(f func(a, b bool) bool) operation {
			return operation{o.takes + "p", func(m *machine, in *instruction, lanes []int32) {
				p := m.bools[in.a[3]]
				with := make([]bool, len(p)) // the result may be the predicate
				copy(with, p)
				o.run(m, in, lanes)
				for _, l := range lanes {
					m.bools[in.a[0]][l] = f(m.bools[in.a[0]][l], with[l])
				}
			}}
		}
		all["setp."+op+".and."+typ] = join(func(a, b bool) bool { return a && b })
		all["setp."+op+".or."+typ] = join(func(a, b bool) bool { return a || b })
	}
	return all
}

// operations holds the instructions that only compute.
var operations = joined(map[string]operation{
	"mov.u32": words1("r=r", move), "mov.s32": words1("r=r", move), "mov.f32": words1("f=f", move),
	"add.u32": words2("r=rr", add), "add.s32": words2("r=rr", add), "sub.u32": words2("r=rr", sub),
	"sub.s32": words2("r=rr", sub), "mul.lo.u32": words2("r=rr", mul), "mul.lo.s32": words2("r=rr", mul),
	"and.b32": words2("r=rr", func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = a[l] & b[l]
		}
	}),
	"or.b32":  each2("r=rr", func(a, b uint32) uint32 { return a | b }),
	"xor.b32": each2("r=rr", func(a, b uint32) uint32 { return a ^ b }),
	"shl.b32": words2("r=rr", func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = a[l] << b[l]
		}
	}),
	"shr.u32": words2("r=rr", func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = a[l] >> b[l]
		}
	}),
	"shr.s32": each2("r=rr", func(a, b uint32) uint32 { return uint32(int32(a) >> b) }),
	"div.u32": each2("r=rr", func(a, b uint32) uint32 { return a / b }),
	"rem.u32": each2("r=rr", func(a, b uint32) uint32 { return a % b }),
	"div.s32": each2("r=rr", func(a, b uint32) uint32 { return uint32(int32(a) / int32(b)) }),
	"rem.s32": each2("r=rr", func(a, b uint32) uint32 { return uint32(int32(a) % int32(b)) }),
	"min.u32": words2("r=rr", func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = min(a[l], b[l])
		}
	}),
	"max.u32": each2("r=rr", func(a, b uint32) uint32 { return max(a, b) }),
	"min.s32": each2("r=rr", func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) }),
	"max.s32": each2("r=rr", func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) }),
	"prmt.b32": {"r=rrr", func(m *machine, in *instruction, lanes []int32) {
		d, a, b, c := m.words[in.a[0]], m.words[in.a[1]], m.words[in.a[2]], m.words[in.a[3]]
		for _, l := range lanes {
			d[l] = permuted(a[l], b[l], c[l])
		}
	}},
	"lop3.b32": {"r=rrrr", func(m *machine, in *instruction, lanes []int32) {
		d, a, b, c, table := m.words[in.a[0]], m.words[in.a[1]], m.words[in.a[2]], m.words[in.a[3]], m.words[in.a[4]]
		for _, l := range lanes {
			d[l] = logicOf(a[l], b[l], c[l], table[l])
		}
	}},
	"fma.rn.bf16x2": {"r=rrr", func(m *machine, in *instruction, lanes []int32) {
		d, a, b, c := m.words[in.a[0]], m.words[in.a[1]], m.words[in.a[2]], m.words[in.a[3]]
		for _, l := range lanes {
			d[l] = sumOfHalves(a[l], b[l], c[l])<<16 | sumOfHalves(a[l]<<16, b[l]<<16, c[l]<<16)&0xffff
		}
	}},
	"fma.rn.f16x2": {"r=rrr", func(m *machine, in *instruction, lanes []int32) {
		d, a, b, c := m.words[in.a[0]], m.words[in.a[1]], m.words[in.a[2]], m.words[in.a[3]]
		for _, l := range lanes {
			d[l] = sumOfNarrow(a[l]>>16, b[l]>>16, c[l]>>16)<<16 | sumOfNarrow(a[l], b[l], c[l])
		}
	}},
	"abs.s32": each1("r=r", func(a uint32) uint32 { return uint32(max(int32(a), -int32(a))) }),
	"clz.b32": each1("r=r", func(a uint32) uint32 { return uint32(bits.LeadingZeros32(a)) }),
	"mad.lo.u32": {"r=rrr", func(m *machine, in *instruction, lanes []int32) {
		d, a, b, c := m.words[in.a[0]], m.words[in.a[1]], m.words[in.a[2]], m.words[in.a[3]]
		for _, l := range lanes {
			d[l] = a[l]*b[l] + c[l]
		}
	}},
	"mad.wide.u32": {"d=rrd", func(m *machine, in *instruction, lanes []int32) {
		d, a, b, c := m.doubles[in.a[0]], m.words[in.a[1]], m.words[in.a[2]], m.doubles[in.a[3]]
		for _, l := range lanes {
			d[l] = uint64(a[l])*uint64(b[l]) + c[l]
		}
	}},
	"shl.b64": {"d=dr", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.doubles[in.a[0]][l] = m.doubles[in.a[1]][l] << m.words[in.a[2]][l]
		}
	}},
	"shr.u64": doubles(func(a, b uint64) uint64 { return a >> b }),
	"sub.u64": doubles(func(a, b uint64) uint64 { return a - b }),
	"div.u64": doubles(func(a, b uint64) uint64 { return a / b }),
	"cvt.u32.u64": {"r=d", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.words[in.a[0]][l] = uint32(m.doubles[in.a[1]][l])
		}
	}},
	"cvta.to.global.u64": {"d=d", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.doubles[in.a[0]][l] = m.doubles[in.a[1]][l]
		}
	}},

	"add.rn.f32": words2("f=ff", addFloats), "sub.rn.f32": words2("f=ff", subFloats),
	"mul.rn.f32": words2("f=ff", mulFloats),
	"div.rn.f32": words2("f=ff", func(d, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = number(math.Float32frombits(a[l]) / math.Float32frombits(b[l]))
		}
	}),
	// The product is exact in float64. Rounding the sum twice can differ from once by a unit in the last place, in
	// about one of 2^29 cases.
	"fma.rn.f32": {"f=fff", func(m *machine, in *instruction, lanes []int32) {
		d, a, b, c := m.words[in.a[0]], m.words[in.a[1]], m.words[in.a[2]], m.words[in.a[3]]
		for _, l := range lanes {
			d[l] = number(float32(value(a[l])*value(b[l]) + value(c[l])))
		}
	}},
	"neg.f32":         each1("f=f", func(a uint32) uint32 { return a ^ 1<<31 }),
	"abs.f32":         each1("f=f", func(a uint32) uint32 { return a &^ (1 << 31) }),
	"min.f32":         each2("f=ff", smaller),
	"max.f32":         each2("f=ff", larger),
	"sqrt.rn.f32":     float1(math.Sqrt),
	"ex2.approx.f32":  each1("f=f", approximate),
	"cvt.rpi.f32.f32": float1(math.Ceil),
	"cvt.rmi.f32.f32": float1(math.Floor),
	"cvt.rni.f32.f32": float1(math.RoundToEven),
	"cvt.rn.f32.u32":  each1("f=r", func(a uint32) uint32 { return number(float32(a)) }),
	"cvt.rn.f32.s32":  each1("f=r", func(a uint32) uint32 { return number(float32(int32(a))) }),
	"cvt.rzi.s32.f32": each1("r=f", clamped(math.MinInt32, math.MaxInt32)),
	"cvt.rzi.u32.f32": each1("r=f", clamped(0, math.MaxUint32)),
	"cvt.f32.f16": {"f=h", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.words[in.a[0]][l] = number(half(m.halves[in.a[1]][l]))
		}
	}},

	"selp.b32": choose("r"), "selp.f32": choose("f"),
	"setp.eq.u32": compared("r", equal), "setp.eq.s32": compared("r", equal),
	"setp.ne.u32": compared("r", unequal), "setp.ne.s32": compared("r", unequal),
	"setp.lt.u32": compared("r", func(d []bool, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = a[l] < b[l]
		}
	}),
	"setp.le.u32": compared("r", func(d []bool, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = a[l] <= b[l]
		}
	}),
	"setp.gt.u32": compares("r", func(a, b uint32) bool { return a > b }),
	"setp.ge.u32": compares("r", func(a, b uint32) bool { return a >= b }),
	"setp.lt.s32": compares("r", func(a, b uint32) bool { return int32(a) < int32(b) }),
	"setp.le.s32": compares("r", func(a, b uint32) bool { return int32(a) <= int32(b) }),
	"setp.gt.s32": compares("r", func(a, b uint32) bool { return int32(a) > int32(b) }),
	"setp.ge.s32": compares("r", func(a, b uint32) bool { return int32(a) >= int32(b) }),
	"setp.eq.f32": compares("f", func(a, b uint32) bool { return value(a) == value(b) }),
	// true for NaN
	"setp.neu.f32": compares("f", func(a, b uint32) bool { return value(a) != value(b) }),
	"setp.lt.f32":  compares("f", func(a, b uint32) bool { return value(a) < value(b) }),
	"setp.le.f32":  compares("f", func(a, b uint32) bool { return value(a) <= value(b) }),
	"setp.gt.f32":  compares("f", func(a, b uint32) bool { return value(a) > value(b) }),
	"setp.ge.f32":  compares("f", func(a, b uint32) bool { return value(a) >= value(b) }),

	"add.f32": words2("f=ff", addFloats), "mul.f32": words2("f=ff", mulFloats), "sub.f32": words2("f=ff", subFloats),
	"max.NaN.f32":  each2("f=ff", largest),
	"min.NaN.f32":  each2("f=ff", smallest),
	"copysign.f32": each2("f=ff", func(a, b uint32) uint32 { return a&(1<<31) | b&^(1<<31) }),
	"rcp.approx.ftz.f32": each1("f=f", func(a uint32) uint32 {
		return flushed(number(float32(reciprocal(value(flushed(a))))))
	}),
	"rcp.rn.f32":         float1(reciprocal),
	"ex2.approx.ftz.f32": each1("f=f", func(a uint32) uint32 { return flushed(approximate(flushed(a))) }),
	"cvt.rn.bf16x2.f32":  pairs(func(f float64) uint32 { return rounded(f, 8, -126) >> 16 }),
	"cvt.rn.f16x2.f32":   pairs(narrow),
	"mov.b64": {"d=d", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.doubles[in.a[0]][l] = m.doubles[in.a[1]][l]
		}
	}},
	"cvt.u64.u32": {"d=r", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.doubles[in.a[0]][l] = uint64(m.words[in.a[1]][l])
		}
	}},
	"mul.wide.u32": {"d=rr", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.doubles[in.a[0]][l] = uint64(m.words[in.a[1]][l]) * uint64(m.words[in.a[2]][l])
		}
	}},
	"mad.lo.u64": {"d=ddd", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.doubles[in.a[0]][l] = m.doubles[in.a[1]][l]*m.doubles[in.a[2]][l] + m.doubles[in.a[3]][l]
		}
	}},
	"or.b64":     doubles(func(a, b uint64) uint64 { return a | b }),
	"add.u64":    doubles(func(a, b uint64) uint64 { return a + b }),
	"mul.lo.u64": doubles(func(a, b uint64) uint64 { return a * b }),

	"and.pred": logic(func(a, b bool) bool { return a && b }),
	"or.pred":  logic(func(a, b bool) bool { return a || b }),
	"xor.pred": logic(func(a, b bool) bool { return a != b }),
	"not.pred": {"p=p", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.bools[in.a[0]][l] = !m.bools[in.a[1]][l]
		}
	}},
	"mov.pred": {"p=p", func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			m.bools[in.a[0]][l] = m.bools[in.a[1]][l]
		}
	}},
})

// compares makes a comparison of a function of one lane.
func compares(class string, f func(a, b uint32) bool) operation {
	return compared(class, func(d []bool, a, b []uint32, lanes []int32) {
		for _, l := range lanes {
			d[l] = f(a[l], b[l])
		}
	})
}
