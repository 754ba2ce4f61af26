package main

import (
	"fmt"
	"os"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/reg"
)

// Macros for instructions that Go's assembler lacks; most are in ../product/amx_amd64.h. Operands are in Intel's order,
// the result first. avo cannot see which registers a macro uses, so registers are assigned by hand.

// macro emits a macro call.
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

// macroNeeds lists, by prefix of a macro's name, the instruction sets that it requires. avo lists the required sets in
// a comment of each routine, but does not know about macros.
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

// gpNames holds the names of the general registers in macros, by number.
var gpNames = []string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
	"r14", "r15"}

// tile is a tile register.
type tile byte

// tileLoad loads t from rows at [base + disp], stride bytes apart.
func tileLoad(t tile, base, stride GPPhysical, disp int) { macro("TILELOADD", t, base, stride, disp) }

// tileStore stores t to rows at [base + disp], stride bytes apart.
func tileStore(base, stride GPPhysical, disp int, t tile) { macro("TILESTORED", base, stride, disp, t) }

// tileProduct is sum += a·b.
func tileProduct(sum, a, b tile) { macro("TDPBF16PS", sum, a, b) }

func tileZero(t tile) { macro("TILEZERO", t) }

func tileConfig(base GPPhysical) { macro("LDTILECFG", base) }

func tileRelease() { macro("TILERELEASE") }

// vdpbf16ps is dst += a·b over the pairs of each lane.
func vdpbf16ps(a, b, dst VecPhysical) { macro("VDPBF16PS", dst, a, b) }

// toBF16 rounds the lanes of low, then those of high, to bfloat16.
func toBF16(low, high, dst VecPhysical) { macro("VCVTNE2PS2BF16", dst, high, low) }

// include adds headers to an assembly file, which avo cannot do.
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
