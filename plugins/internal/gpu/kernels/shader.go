package kernels

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"github.com/rlx-go/rlx/core/dtype"
)

// library has the functions that shaders share. A shader's text includes only those that it uses.
var library = bitsWGSL + libraryWGSL + wideWGSL

var (
	//go:embed bits.wgsl
	bitsWGSL string
	//go:embed library.wgsl
	libraryWGSL string
)

// Window is the range of a device buffer that one binding covers, in bytes.
type Window struct {
	Offset, Size int64
}

// View locates an operand: consecutive windows, and the number of elements of the first window that precede the
// operand.
type View struct {
	Windows []Window
	Skip    int64
}

// Text returns the complete WGSL of a shader, with one view per binding. Binding i in the text is window i of all views
// in order. The parameters are the last binding.
func (s Shader) Text(views []View) (string, error) {
	if s.Source != nil {
		return s.Source(views)
	}
	var b strings.Builder
	next := 0
	for i, bind := range s.Bindings {
		b.WriteString(bind.declare(next, views[i]))
		next += len(views[i].Windows)
	}
	b.WriteString("struct Params {\n")
	for _, f := range s.Fields {
		name, typ, _ := field(f)
		fmt.Fprintf(&b, "  %s: %s,\n", name, typ)
	}
	fmt.Fprintf(&b, "}\n@group(0) @binding(%d) var<storage, read> P: Params;\n", next)
	t, err := template.New("shader " + s.Name).Funcs(functions).Parse(s.Body)
	if err == nil {
		err = t.Execute(&b, map[string]any{"C": s.Consts})
	}
	if err != nil {
		return "", fmt.Errorf("shader %s: %w", s.Name, err)
	}
	return withLibrary(b.String()), nil
}

// field reads an entry of Fields: a member's name and type in WGSL, and its size in words.
func field(f string) (name, typ string, words int) {
	name, size, _ := strings.Cut(f, ":")
	switch pairs, isPairs := strings.CutPrefix(size, "2x"); {
	case size == "":
		return name, "u32", 1
	case size == "f32":
		return name, "f32", 1
	case isPairs:
		n, _ := strconv.Atoi(pairs)
		return name, "array<vec2<f32>, " + pairs + ">", 2 * n
	}
	words, _ = strconv.Atoi(size)
	return name, "array<u32, " + size + ">", words
}

// ParamWords returns the size of the parameter struct, in words.
func (s Shader) ParamWords() (n int) {
	for _, f := range s.Fields {
		_, _, words := field(f)
		n += words
	}
	return n
}

var functions = template.FuncMap{
	"seq": func(n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = i
		}
		return out
	},
	"fields": func() []string { return []string{"x", "y", "z", "w"} },
	"scalar": scalarOf,
	"add":    func(a, b int) int { return a + b },
	"sub":    func(a, b int) int { return a - b },
	"mul":    func(a, b int) int { return a * b },
	"div":    func(a, b int) int { return a / b },
	"mod":    func(a, b int) int { return a % b },
}

// libraryFunctions returns for each function of the library its complete text and its name.
var libraryFunctions = sync.OnceValue(func() [][]string { return functionsOf(library) })

// functionsOf finds the functions in WGSL text, including those of a single line.
func functionsOf(text string) [][]string {
	return regexp.MustCompile(`(?ms)^fn (\w+)\((?:[^\n]*}\n|.*?^}\n)`).FindAllStringSubmatch(text, -1)
}

// withLibrary adds the library functions that text calls, directly or indirectly.
func withLibrary(text string) string {
	used := map[string]bool{}
	for again := true; again; {
		again = false
		for _, m := range libraryFunctions() {
			if !used[m[1]] && strings.Contains(text, m[1]+"(") {
				used[m[1]], again = true, true
				text = m[0] + text
			}
		}
	}
	return text
}

// elementType returns the WGSL type in which values of d are computed.
func elementType(d dtype.DType) string {
	switch d {
	case dtype.I32, dtype.I64:
		return "i32"
	case dtype.U32:
		return "u32"
	case dtype.Bool:
		return "bool"
	}
	return "f32"
}

// valueType returns the WGSL type of what kernels that compute with all of an element's bits have for it.
func valueType(d dtype.DType) string {
	if d == dtype.I64 {
		return "vec2<u32>"
	}
	return elementType(d)
}

// declare writes the variables of a binding and its accessors:
//
//	NAME(i)         element i as a WGSL value (an i64 as the nearest i32)
//	NAME_bits(i)    the bits of element i (of an i64 the low word)
//	NAME_wide(i)    of i64: both words of element i, the low one first; NAME_wide_put(i, v) writes them
//	NAME_encode(v)  the bits of a value
//	NAME_put(w, v)  writes the 32-bit word w
//
// A u8 operand has only NAME_bits, and an atomic one only NAME_add(w, v), which adds v to word w. With Vec 4 there are
// instead
//
//	NAME4(i)        elements 4i to 4i+3 as vec4<f32>, or vec4<u32> for u32; of packed weights the values
//	NAME4_put(i, v) writes these elements
//	NAME4_bits(i)   of f16: the bits of these elements
//
// Bools with Vec 4 have only NAME4(i), a vec4<bool>.
func (bind Binding) declare(first int, v View) string {
	var b strings.Builder
	unit, typ := bind.unit()
	if bind.Atomic {
		typ = "atomic<u32>"
	}
	for i := range v.Windows {
		fmt.Fprintf(&b, "@group(0) @binding(%d) var<storage, read_write> %s_w%d: array<%s>;\n", first+i, bind.Name, i,
			typ)
	}
	if bind.Atomic {
		bind.declareAtomic(&b, v)
		return b.String()
	}
	read, write := bind.access(v, unit)
	if bind.Vec == 4 {
		bind.declareFour(&b, v, typ, read, write)
	} else {
		bind.declareOne(&b, v, read, write)
	}
	return b.String()
}

// unit returns the size in bytes and the type of an element of the array that is bound.
func (bind Binding) unit() (bytes int64, typ string) {
	switch {
	case bind.Vec != 4 || bind.DType == dtype.Bool:
		return 4, "u32"
	case bind.narrow():
		return 8, "vec2<u32>"
	case bind.DType == dtype.U32:
		return 16, "vec4<u32>"
	}
	return 16, "vec4<f32>"
}

// narrow reports whether two elements share a word.
func (bind Binding) narrow() bool { return bind.DType == dtype.F16 || bind.DType == dtype.BF16 }

// declareFour writes the accessors of four elements at a time.
func (bind Binding) declareFour(b *strings.Builder, v View, typ, read, write string) {
	name, skip := bind.Name, ""
	if v.Skip != 0 {
		skip = fmt.Sprintf(" + %du", v.Skip/4)
	}
	fmt.Fprintf(b, "fn %s_unit(i: u32) -> %s {\n%s}\n", name, typ, read)
	switch bind.DType {
	case dtype.Bool:
		fmt.Fprintf(b, "fn %s4(i: u32) -> vec4<bool> {\n  let w = %s_unit(i%s);\n"+
			"  return vec4<bool>((w & 0xffu) != 0u, (w & 0xff00u) != 0u, (w & 0xff0000u) != 0u, (w & 0xff000000u) != 0u);\n}\n",
			name, name, skip)
	case dtype.F16:
		fmt.Fprintf(
			b, "fn %s4(i: u32) -> vec4<f32> {\n  let u = %s_unit(i%s);\n  return vec4<f32>(unpack2x16float(u.x), unpack2x16float(u.y));\n}\n",
			name, name, skip)
		fmt.Fprintf(b, "fn %s4_bits(i: u32) -> vec2<u32> { return %s_unit(i%s); }\n", name, name, skip)
	case dtype.BF16:
		fmt.Fprintf(
			b, "fn %s4(i: u32) -> vec4<f32> {\n  let u = %s_unit(i%s);\n  return bitcast<vec4<f32>>(vec4<u32>(u.x << 16u, u.x & 0xffff0000u, u.y << 16u, u.y & 0xffff0000u));\n}\n",
			name, name, skip)
	default:
		fmt.Fprintf(b, "fn %s4(i: u32) -> %s { return %s_unit(i%s); }\n", name, typ, name, skip)
		if bind.writes() {
			fmt.Fprintf(b, "fn %s4_put(i: u32, v: %s) {\n%s}\n", name, typ, write)
		}
	}
	if bind.narrow() && bind.writes() {
		round := map[dtype.DType]string{dtype.F16: "f16_from_f32", dtype.BF16: "bf16_from_f32"}[bind.DType]
		fmt.Fprintf(b, "fn %s_unit_put(i: u32, v: vec2<u32>) {\n%s}\n", name, write)
		fmt.Fprintf(
			b, "fn %[1]s4_put(i: u32, v: vec4<f32>) {\n  %[1]s_unit_put(i, vec2<u32>(%[2]s(v.x) | (%[2]s(v.y) << 16u), %[2]s(v.z) | (%[2]s(v.w) << 16u)));\n}\n",
			name, round)
	}
}

// declareOne writes the accessors of single elements.
func (bind Binding) declareOne(b *strings.Builder, v View, read, write string) {
	name, skip := bind.Name, ""
	fmt.Fprintf(b, "fn %s_word(i: u32) -> u32 {\n%s}\n", name, read)
	if bind.writes() {
		fmt.Fprintf(b, "fn %s_put(i: u32, v: u32) {\n%s}\n", name, write)
	}
	if v.Skip != 0 {
		skip = fmt.Sprintf(" + %du", v.Skip)
	}
	switch bind.DType.Size() {
	case 4:
		fmt.Fprintf(b, "fn %s_bits(i: u32) -> u32 { return %s_word(i%s); }\n", name, name, skip)
	case 2:
		fmt.Fprintf(
			b, "fn %s_bits(i: u32) -> u32 {\n  let k = i%s;\n  return (%s_word(k >> 1u) >> ((k & 1u) * 16u)) & 0xffffu;\n}\n",
			name, skip, name)
	case 1:
		fmt.Fprintf(
			b, "fn %s_bits(i: u32) -> u32 {\n  let k = i%s;\n  return (%s_word(k >> 2u) >> ((k & 3u) * 8u)) & 0xffu;\n}\n",
			name, skip, name)
	}
	if bind.DType == dtype.U8 {
		if bind.Packed != 0 {
			bind.declarePacked(b, v.Skip)
		}
		return
	}
	if bind.DType == dtype.I64 {
		fmt.Fprintf(b, "fn %[1]s_bits(i: u32) -> u32 { return %[1]s_word(2u * (i%[2]s)); }\n", name, skip)
		fmt.Fprintf(b, "fn %[1]s_wide(i: u32) -> vec2<u32> {\n  let k = 2u * (i%[2]s);\n"+
			"  return vec2<u32>(%[1]s_word(k), %[1]s_word(k + 1u));\n}\n", name, skip)
		if bind.writes() {
			fmt.Fprintf(b, "fn %[1]s_wide_put(i: u32, v: vec2<u32>) {\n  %[1]s_put(2u * i, v.x);\n"+
				"  %[1]s_put(2u * i + 1u, v.y);\n}\n", name)
		}
		fmt.Fprintf(
			b, "fn %[1]s(i: u32) -> i32 {\n  let k = 2u * (i%[2]s);\n  let low = bitcast<i32>(%[1]s_word(k));\n  let high = bitcast<i32>(%[1]s_word(k + 1u));\n"+
				"  return select(select(2147483647, -2147483647 - 1, high < 0), low, high == low >> 31u);\n}\n", name,
			skip)
		return
	}
	decode, encode := map[dtype.DType]string{
		dtype.F32: "bitcast<f32>(%s)", dtype.F16: "f32_from_f16(%s)", dtype.BF16: "bitcast<f32>(%s << 16u)",
		dtype.I32: "bitcast<i32>(%s)", dtype.U32: "%s", dtype.Bool: "(%s != 0u)",
	}[bind.DType], map[dtype.DType]string{
		dtype.F32: "bitcast<u32>(v)", dtype.F16: "f16_from_f32(v)", dtype.BF16: "bf16_from_f32(v)",
		dtype.I32: "bitcast<u32>(v)", dtype.U32: "v", dtype.Bool: "select(0u, 1u, v)",
	}[bind.DType]
	t := elementType(bind.DType)
	fmt.Fprintf(b, "fn %s(i: u32) -> %s { return %s; }\n", name, t, fmt.Sprintf(decode, name+"_bits(i)"))
	fmt.Fprintf(b, "fn %s_encode(v: %s) -> u32 { return %s; }\n", name, t, encode)
}

// declareAtomic writes NAME_add(i, v), which adds v to word i.
func (bind Binding) declareAtomic(b *strings.Builder, v View) {
	fmt.Fprintf(b, "fn %s_add(i: u32, v: u32) {\n", bind.Name)
	at := int64(0)
	for i, win := range v.Windows {
		from := at / 4
		at += win.Size
		fmt.Fprintf(b, "  if (i >= %du && i < %du) {\n    atomicAdd(&%s_w%d[i - %du], v);\n  }\n", from, at/4,
			bind.Name, i, from)
	}
	b.WriteString("}\n")
}

// declarePacked writes the reader of packed weights that begin skip bytes into the binding.
func (bind Binding) declarePacked(b *strings.Builder, skip int64) {
	names := []string{"common", bind.Packed.String()}
	if bind.Pairs {
		names = append(names, "pair_"+bind.Packed.String())
	}
	values := map[string]any{"N": bind.Name, "Skip": skip, "Zero": pairZero[bind.Packed], "Size": bind.Packed.Size()}
	for _, name := range names {
		if err := packedReaders.ExecuteTemplate(b, name, values); err != nil {
			panic("BUG: wgpu: " + err.Error())
		}
	}
}

func (bind Binding) writes() bool { return bind.Operand < 0 }

// access returns function bodies that read and write unit i in the window that contains it. unit is in bytes.
func (bind Binding) access(v View, unit int64) (read, write string) {
	var r, w strings.Builder
	at := int64(0)
	for i, win := range v.Windows {
		element := fmt.Sprintf("%s_w%d[i - %du]", bind.Name, i, at/unit)
		if at == 0 {
			element = fmt.Sprintf("%s_w%d[i]", bind.Name, i)
		}
		at += win.Size
		if i < len(v.Windows)-1 {
			fmt.Fprintf(&r, "  if (i < %du) { return %s; }\n", at/unit, element)
			fmt.Fprintf(&w, "  if (i < %du) { %s = v; return; }\n", at/unit, element)
		} else {
			fmt.Fprintf(&r, "  return %s;\n", element)
			fmt.Fprintf(&w, "  %s = v;\n", element)
		}
	}
	return r.String(), w.String()
}
