// Command asm writes the assembly of the packages of kernels. Run it through `go generate` in the folder above:
//
//	go run . -folders    # the parts for amd64, each a file, and their packages
//	go run . -part gemm -pkg product -out ../product/gemm_amd64.s -stubs ../product/gemm_amd64.go
//	go run . -neon ..    # all files for arm64
//
// It is a separate module, so that the rlx module does not depend on avo.
package main

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// parts are the files for amd64, each written by one run of this program.
var parts = map[string]func(vec){
	"gemm":            genGemm,
	"gemm_stored":     genGemmStored,
	"copy":            genCopy,
	"math":            genMath,
	"scores":          genAttention,
	"rows":            genRows,
	"binary":          genBinary,
	"cast":            genCast,
	"integers":        genIntegers,
	"folds":           genFolds,
	"bf16":            genBF16,
	"tiles":           genTiles,
	"attend":          genAttend,
	"fft":             genFFT,
	"random":          genRandom,
	"recurrence":      genRecurrence,
	"scan":            genScan,
	"images":          genConv,
	"winograd":        genWinograd,
	"winograd_last":   genWinogradLast,
	"last":            genLast,
	"packed":          genPacked,
	"packed_decode":   genPackedDecode,
	"packed_integers": genPackedIntegers,
	"packed_bytes":    genPackedBytes,
	"packed_tiles":    genPackedTiles,
	"packed_words":    genPackedWords,
	"packed_eights":   genPackedEights,
	"parts":           genParts,
	"quads":           genQuads,
	"schemes":         genSchemes,
}

// headers lists the files of macros that a part includes.
var headers = map[string][]string{
	"gemm":            {"gemm_amd64.h"},
	"gemm_stored":     {"gemm_amd64.h"},
	"quads":           {"amx_amd64.h", "gemm_amd64.h", "quads_amd64.h"},
	"bf16":            {"amx_amd64.h", "gemm_amd64.h"},
	"tiles":           {"amx_amd64.h"},
	"packed_integers": {"amx_amd64.h"},
	"packed_tiles":    {"amx_amd64.h"},
	"parts":           {"amx_amd64.h"},
	"attend":          {"amx_amd64.h", "attend_amd64.h"},
}

func main() {
	part := flag.String("part", "", "which file to write")
	neon := flag.String("neon", "", "write the files for arm64 to this folder, and nothing else")
	list := flag.Bool("folders", false, "print the parts and their packages, and write nothing")
	flag.Parse() // -out and -stubs are avo's
	if *list {
		listFolders()
		return
	}
	if *neon != "" {
		if err := writeNEON(*neon); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	gen, ok := parts[*part]
	if !ok {
		fmt.Fprintf(os.Stderr, "part %q is not one of %s\n", *part, strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
		os.Exit(2)
	}
	for _, v := range []vec{{8, "AVX2"}, {16, "AVX512"}} {
		gen(v)
	}
	Generate()
	if err := broadcastConstants(flag.Lookup("out").Value.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := checkEncodings(flag.Lookup("out").Value.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := writeMacros(flag.Lookup("out").Value.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := shortenData(flag.Lookup("out").Value.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if len(entries) > 0 {
		if err := appendTo(flag.Lookup("stubs").Value.String(), tables(entries)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if h := headers[*part]; h != nil {
		if err := include(flag.Lookup("out").Value.String(), h...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// checkEncodings rejects instructions of SSE. Among those of AVX each costs tens of cycles, since it keeps the upper
// halves of registers: MOVD instead of VMOVD made products with IQ4_XS 15 times slower.
func checkEncodings(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if line := legacy.Find(text); line != nil {
		return fmt.Errorf("%s: %q is encoded for SSE: use the instruction of AVX", file, line)
	}
	return nil
}

var legacy = regexp.MustCompile(`(?m)^\t[A-UW-Z][A-Z0-9]* +.*\bX\d+\b.*$`)

// broadcastConstants rewrites instructions on 64-byte vectors so that they broadcast one number of a constant instead
// of reading a vector of copies. Go aligns data to at most 32 bytes, so a 64-byte constant often spans two cache lines;
// that doubled the time of exp.
func broadcastConstants(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text = wideConstant.ReplaceAllFunc(text, func(line []byte) []byte {
		p := wideConstant.FindSubmatch(line)
		name := string(p[1]) + ".BCST"
		if name == "VMOVUPS.BCST" {
			name = "VBROADCASTSS"
		}
		return fmt.Appendf(nil, "\t%-*s%s", max(len(name)+1, len(p[1])+len(p[2])+len(p[3])), name+string(p[2]), p[4])
	})
	return os.WriteFile(file, text, 0o644)
}

// wideConstant matches an instruction with a constant and an operand in a 64-byte register. Groups: name, suffix,
// space, operands.
var wideConstant = regexp.MustCompile(
	`(?m)^\t(V[A-Z0-9]+PS|VP(?:ADD|SUB|AND|OR|XOR)D)((?:\.Z)?)( +)((?:\$\w+, )?c[0-9a-f]{8}<>\+0\(SB\), .*\bZ\d+.*)$`)

// entries lists the routines of the part that Go code looks up by name.
var entries []entry

func appendTo(file, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(old, text...), 0o644)
}

// vec is a vector width: eight lanes are AVX2 with FMA, sixteen AVX-512 (F, DQ, BW, VL).
type vec struct {
	lanes int
	name  string
}

func (v vec) wide() bool { return v.lanes == 16 }
func (v vec) bytes() int { return v.lanes * 4 }

func (v vec) reg() VecVirtual {
	if v.wide() {
		return ZMM()
	}
	return YMM()
}

// phys returns vector register i, for routines that assign registers by hand.
func (v vec) phys(i int) VecPhysical {
	if v.wide() {
		return []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15, Z16, Z17, Z18, Z19,
			Z20,
			Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}[i]
	}
	return []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}[i]
}

// constants holds the constants already written to the file, by bit pattern. Each is 64 bytes of copies, for vectors of
// either width.
var constants = map[uint32]Mem{}

func bitsConst(bits uint32) Mem {
	m, ok := constants[bits]
	if !ok {
		m = GLOBL(fmt.Sprintf("c%08x", bits), 8|16) // RODATA|NOPTR
		for i := 0; i < 16; i++ {
			DATA(4*i, U32(bits))
		}
		constants[bits] = m
	}
	return m
}

var laneConstants = map[string]Mem{}

// lanesConst returns a constant of dwords, one for each lane. It is written to the file at the first use of its name.
func lanesConst(name string, lanes int, lane func(l int) uint32) Mem {
	m, ok := laneConstants[name]
	if !ok {
		m = GLOBL(name, 8|16) // RODATA|NOPTR
		for l := range lanes {
			DATA(4*l, U32(lane(l)))
		}
		laneConstants[name] = m
	}
	return m
}

func f32(x float64) Mem { return bitsConst(math.Float32bits(float32(x))) }

// load loads a constant into a new register.
func (v vec) load(m Mem) VecVirtual {
	r := v.reg()
	VMOVUPS(m, r)
	return r
}

// arg returns the memory of a parameter, result that of the only result.
func arg(name string) Mem { return resolved(Param(name)) }
func result() Mem         { return resolved(ReturnIndex(0)) }

func resolved(c gotypes.Component) Mem {
	b, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// broadcast loads a parameter into all lanes. (A load by MOVSS would keep the upper halves of the vectors.)
func (v vec) broadcast(name string) VecVirtual {
	r := v.reg()
	VBROADCASTSS(arg(name), r)
	return r
}

func (v vec) zero() VecVirtual {
	r := v.reg()
	v.clear(r)
	return r
}

func (v vec) clear(r Register) {
	v.xor(r, r, r)
}

func (v vec) and(a, b, dst Op) {
	if v.wide() {
		VPANDD(a, b, dst)
	} else {
		VANDPS(a, b, dst)
	}
}

func (v vec) or(a, b, dst Op) {
	if v.wide() {
		VPORD(a, b, dst)
	} else {
		VORPS(a, b, dst)
	}
}

func (v vec) xor(a, b, dst Op) {
	if v.wide() {
		VPXORD(a, b, dst)
	} else {
		VXORPS(a, b, dst)
	}
}

// Predicates of VCMPPS.
const (
	cmpLT    = 17 // less than, quiet, false for NaN
	cmpGE    = 29 // at least, likewise
	cmpEQ    = 0
	cmpNotLT = 21 // not less than, quiet, true for NaN
)

// pick returns yes in the lanes where x PREDICATE y holds, and no elsewhere.
func (v vec) pick(predicate uint8, x, y Register, yes, no Register) VecVirtual {
	out := v.reg()
	if v.wide() {
		k := K()
		VCMPPS(Imm(uint64(predicate)), y, x, k)
		VBLENDMPS(yes, no, k, out)
	} else {
		m := YMM()
		VCMPPS(Imm(uint64(predicate)), y, x, m)
		VBLENDVPS(m, yes, no, out)
	}
	return out
}

// horner evaluates c[0] + c[1] x + ... in place of a new register.
func (v vec) horner(x Register, c []float64) VecVirtual {
	s := v.load(f32(c[len(c)-1]))
	for i := len(c) - 2; i >= 0; i-- {
		VFMADD213PS(f32(c[i]), x, s)
	}
	return s
}

// lane adds up the lanes of r in a fixed tree. The sum is the low lane of the result.
func (v vec) lane(r VecVirtual) VecVirtual {
	y := r
	if v.wide() {
		y = YMM()
	}
	x, t := XMM(), XMM()
	name := fmt.Sprint("SUM_LANES", v.lanes)
	macroUse(name, name+" sets x to the sum of the lanes of r. It overwrites the others.",
		[]param{{"r", r}, {"y", y}, {"x", x}, {"t", t}}, func() {
			if v.wide() {
				VEXTRACTF64X4(Imm(1), r, y)
				VADDPS(y, r.AsY(), y)
			}
			VEXTRACTF128(Imm(1), y.AsY(), x)
			VADDPS(x, y.AsX(), x)
			VPERMILPS(Imm(0x0e), x, t)
			VADDPS(t, x, x)
			VPERMILPS(Imm(0x01), x, t)
			VADDSS(t, x, x)
		})
	return x
}
