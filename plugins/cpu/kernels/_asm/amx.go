package main

import (
	"fmt"
	"os"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/reg"
)

// Macros for instructions that Go's assembler lacks, most of them in ../amx_amd64.h, with operands in Intel's order. avo does not see
// which registers they use, so registers are physical.

// macro emits the use of a macro.
func macro(name string, args ...any) {
	text := make([]string, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case tile:
			text[i] = fmt.Sprintf("tmm%d", a)
		case GPPhysical:
			text[i] = gpNames[a.PhysicalIndex()]
		case VecPhysical:
			text[i] = fmt.Sprintf("zmm%d", a.PhysicalIndex())
		case int:
			text[i] = fmt.Sprintf("%#04x", a)
		default:
			text[i] = fmt.Sprint(a)
		}
	}
	i := &ir.Instruction{Opcode: name + "(" + strings.Join(text, ", ") + ")"}
	for _, m := range macroNeeds {
		if strings.HasPrefix(name, m.prefix) {
			i.ISA = m.isa
		}
	}
	Instruction(i)
}

// macroNeeds lists, by prefix of a macro's name, the instruction sets that it needs beside those of the code around it. avo names them
// in each routine.
var macroNeeds = []struct {
	prefix string
	isa    []string
}{
	{"TILE", []string{"AMX-TILE"}},
	{"LDTILE", []string{"AMX-TILE"}},
	{"TDPBF16", []string{"AMX-BF16"}},
	{"TDPBUSD", []string{"AMX-INT8"}},
	{"TDPBSUD", []string{"AMX-INT8"}},
	{"TDPBSSD", []string{"AMX-INT8"}},
	{"VDPBF16", []string{"AVX512_BF16"}},
	{"VCVTNE2PS2BF16", []string{"AVX512_BF16"}},
	{"PAIRS", []string{"AVX512_BF16"}},
	{"FMA", []string{"FMA3"}},
	{"QUADS", []string{"AVX512_VNNI"}},
	{"HALVES", []string{"AVX2"}},
	{"POWERS", []string{"AVX512DQ"}},
}

// gpNames are the names of the general registers in the macros, by number.
var gpNames = []string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}

// tile is a tile register.
type tile byte

// tileLoad is t = rows of [base + disp], stride bytes apart.
func tileLoad(t tile, base, stride GPPhysical, disp int) { macro("TILELOADD", t, base, stride, disp) }

// tileStore is the opposite.
func tileStore(base, stride GPPhysical, disp int, t tile) { macro("TILESTORED", base, stride, disp, t) }

// tileProduct is sum += a·b.
func tileProduct(sum, a, b tile) { macro("TDPBF16PS", sum, a, b) }

func tileZero(t tile) { macro("TILEZERO", t) }

func tileConfig(base GPPhysical) { macro("LDTILECFG", base) }

func tileRelease() { macro("TILERELEASE") }

// vdpbf16ps is dst += a·b over the pairs of each lane.
func vdpbf16ps(a, b, dst VecPhysical) { macro("VDPBF16PS", dst, a, b) }

// toBF16 is the lanes of low and then those of high, rounded to bfloat16.
func toBF16(low, high, dst VecPhysical) { macro("VCVTNE2PS2BF16", dst, high, low) }

// include adds headers to a file of assembly, which avo cannot.
func include(file string, headers ...string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const after = "#include \"textflag.h\"\n"
	lines := after
	for _, h := range headers {
		lines += fmt.Sprintf("#include %q\n", h)
	}
	return os.WriteFile(file, []byte(strings.Replace(string(text), after, lines, 1)), 0o644)
}
