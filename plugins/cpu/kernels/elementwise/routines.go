// Package elementwise has functions of one, two or three operands, element by element, with broadcast: single ones,
// fused regions of them, and casts.
package elementwise

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

// Routines compute elementwise functions and casts.
type Routines struct {
	// Elementwise functions over slices of equal length, indexed by their ops; dst may be an operand.
	unary   []unaryLoop // by id; see apply
	Binary  []func(dst, a, b []float32)
	compare [compareCount]func(dst []uint8, a, b []float32)
	test    [predicateCount]func(dst []uint8, src []float32)
	choose  func(dst []float32, cond []uint8, t, f []float32)
	// mulAddRows is MulAddRows for at least one element. Nil means none.
	mulAddRows func(dst, x *float32, n, rows int, by *float32, byStep int, add *float32, addStep int)
	// bits holds the functions of bits and bools. A function of one operand gets it as both a and b.
	bits [bitOpCount]func(dst, a, b []uint8)
	// half holds functions of f16 or bf16 that widen, compute in f32 and round in one pass.
	half map[halfFunction]func(dst, a, b []uint16)

	// halfMixed holds the same functions of f16 or bf16, and f32, with results of the former.
	halfMixed map[mixedFunction]func(dst, a []uint16, b []float32)
	// slow lists the elementwise ops for which the set has no routine. Loops in Go compute them.
	slow map[any]bool

	casts    *castRoutines // for whole vectors; loops in Go do the rest
	affine   *affineRoutines
	integers map[integerFunction]integerRoutine
}

var table isa.Table[Routines]

func init() { table.Add(isa.Generic, generic) }

// On returns the routines of a set.
func On(s *isa.Set) *Routines { return table.On(s) }

func generic() *Routines {
	s := &Routines{choose: chooseGeneric}
	s.setElementwiseInGo()
	return s
}

// setElementwiseInGo gives a set loops in Go for all elementwise functions. Sets with routines keep them for the last
// elements of a row, which do not fill a vector.
func (s *Routines) setElementwiseInGo() {
	s.unary, s.slow, s.bits = unaryInGo(), map[any]bool{}, bitsInGo()
	for id := range s.unary {
		s.slow[UnaryOp{id: uint8(id)}] = true
	}
	s.Binary = make([]func(dst, a, b []float32), len(binaries))
	for op, f := range binaries {
		if f.f == nil {
			continue
		}
		s.Binary[op] = func(dst, a, b []float32) { binaryRow(BinaryOp(op), dst, a, b, 1, 1) }
		s.slow[BinaryOp(op)] = true
	}
	for op := range s.test {
		s.test[op] = testLoop[float32](Predicate(op))
		s.slow[Predicate(op)] = true
	}
	for op := range s.compare {
		s.compare[op] = func(dst []uint8, a, b []float32) { compareRow(CompareOp(op), dst, a, b, 1, 1) }
		s.slow[CompareOp(op)] = true
	}
}

func chooseGeneric(dst []float32, cond []uint8, t, f []float32) { whereRow(dst, cond, t, f, 1, 1, 1) }
