package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/reg"
)

// param is a parameter of a macro: a register or a number.
type param struct {
	name  string
	value any // Register, *VecVirtual that body sets, or int
}

// A section is a run of instructions that routines of a file have several times, with other registers and numbers. The
// file has it once, as a macro.
type section struct {
	name, doc string
	params    []param
}

var sections []section

// macroUse writes the instructions of body as a use of the macro called name. Uses may differ in what depends on the
// parameters: registers that are parameters, and numbers that are linear functions of one. Temporary registers become
// parameters too if they differ. doc describes the macro and begins with its name.
func macroUse(name, doc string, params []param, body func()) {
	sections = append(sections, section{name, doc, params})
	begin := &ir.Instruction{Opcode: fmt.Sprint("BEGIN_", len(sections)-1)}
	Instruction(begin)
	body()
	for _, p := range params {
		switch r := p.value.(type) {
		case *VecVirtual:
			begin.Operands = append(begin.Operands, *r)
		case Register:
			begin.Operands = append(begin.Operands, r)
		}
	}
	Instruction(&ir.Instruction{Opcode: "END"})
}

// use is where a file uses a macro.
type use struct {
	section
	values []string // of the parameters
	lines  [][]string
	from   int // line of the file
}

var (
	token        = regexp.MustCompile(`[\pL\pN_]+|\s+|.`)
	vectorName   = regexp.MustCompile(`^([XYZ]|zmm)(\d+)$`)
	registerName = regexp.MustCompile(`^([XYZ]\d+|[ABCD]X|[SD]I|R\d+)$`)
	noOffset     = regexp.MustCompile(`(\s)\(`)
	zeroOffset   = regexp.MustCompile(`(\s)0\(`)
	beginMarker  = regexp.MustCompile(`^\tBEGIN_(\d+) *(.*)$`)
)

// tokens splits a line. Every address has an offset then.
func tokens(line string) []string {
	name, operands, _ := strings.Cut(strings.TrimSpace(line), " ")
	return token.FindAllString(noOffset.ReplaceAllString(name+" "+strings.TrimSpace(operands), "${1}0("), -1)
}

// writeMacros replaces the marks of macroUse by macros, the inner ones of nested sections first.
func writeMacros(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	var macros []string
	for {
		var name string
		var uses []use
		var open *use
		for at, line := range lines {
			if m := beginMarker.FindStringSubmatch(line); m != nil {
				n, _ := strconv.Atoi(m[1])
				open = &use{section: sections[n], from: at}
				registers := strings.Split(m[2], ", ")
				for _, p := range open.params {
					if v, ok := p.value.(int); ok {
						open.values = append(open.values, strconv.Itoa(v))
					} else {
						open.values, registers = append(open.values, registers[0]), registers[1:]
					}
				}
			} else if open != nil && strings.TrimSpace(line) == "END" {
				if name == "" || name == open.name {
					name, uses = open.name, append(uses, *open)
				}
				open = nil
			} else if open != nil {
				open.lines = append(open.lines, tokens(line))
			}
		}
		if name == "" {
			break
		}
		macro, calls := macroOf(uses)
		for i, u := range slices.Backward(uses) {
			to := u.from + len(u.lines) + 2
			if macro == "" {
				lines = slices.Delete(slices.Delete(lines, to-1, to), u.from, u.from+1)
				continue
			}
			lines = slices.Replace(lines, u.from, to, "\t"+calls[i])
		}
		if macro != "" {
			macros = append(macros, macro)
		}
	}
	// Macros precede all routines, since vet takes what follows a routine for a part of it.
	const after = "#include \"textflag.h\"\n"
	out := strings.Join(lines, "\n")
	if len(macros) > 0 {
		out = strings.Replace(out, after, after+"\n"+strings.Join(macros, "\n"), 1)
	}
	return os.WriteFile(file, []byte(out), 0o644)
}

// macroOf returns the macro for some uses and the lines that call it, or an empty text if it would not save lines.
func macroOf(uses []use) (text string, calls []string) {
	first := uses[0]
	if len(uses) == 1 || len(first.lines) == 1 {
		return "", nil
	}
	fail := func(i int, what string, args ...any) {
		panic(fmt.Sprintf("%s, use %d: %s", first.name, i, fmt.Sprintf(what, args...)))
	}
	names := make([]string, len(first.params))
	for i, p := range first.params {
		names[i] = p.name
	}
	values := make([][]string, len(uses))
	for i, u := range uses {
		values[i] = slices.Clone(u.values)
		if len(u.lines) != len(first.lines) {
			fail(i, "%d lines instead of %d", len(u.lines), len(first.lines))
		}
	}
	used := map[string]bool{}
	var body []string
	for l, line := range first.lines {
		var out strings.Builder
		for t, tok := range line {
			here := make([]string, len(uses))
			same := true
			for i, u := range uses {
				if len(u.lines[l]) != len(line) {
					fail(i, "%q instead of %q", strings.Join(u.lines[l], ""), strings.Join(line, ""))
				}
				here[i] = u.lines[l][t]
				same = same && here[i] == tok
			}
			if same {
				out.WriteString(tok)
				continue
			}
			name := parameter(here, &names, values)
			if name == "" {
				fail(0, "no parameter is %v in %q", here, strings.Join(line, ""))
			}
			for _, n := range token.FindAllString(name, -1) {
				used[n] = true
			}
			out.WriteString(name)
		}
		body = append(body, zeroOffset.ReplaceAllString(out.String(), "${1}("))
	}
	var kept []string
	for p, name := range names {
		if used[name] {
			kept = append(kept, name)
		} else {
			names[p] = ""
		}
	}
	for i := range uses {
		var args []string
		for p, name := range names {
			if name != "" {
				args = append(args, values[i][p])
			}
		}
		calls = append(calls, fmt.Sprintf("%s(%s)", first.name, strings.Join(args, ", ")))
	}
	text = fmt.Sprintf("// %s\n#define %s(%s) \\\n\t%s\n", strings.ReplaceAll(first.doc, "\n", "\n// "), first.name,
		strings.Join(kept, ", "), strings.Join(body, "; \\\n\t"))
	return text, calls
}

// parameter returns the expression of a parameter that has these values in the uses. It may add a parameter for
// another width of a vector.
func parameter(here []string, names *[]string, values [][]string) string {
	for p, name := range *names {
		equal := true
		for i, h := range here {
			equal = equal && values[i][p] == h
		}
		if equal {
			return name
		}
	}
	numbers := make([]int64, len(here))
	for i, h := range here {
		n, err := strconv.ParseInt(h, 0, 64)
		if err != nil {
			return widened(here, names, values)
		}
		numbers[i] = n
	}
	var known []string // the parameters that are numbers, and their values in each use
	at := make([][]int64, len(here))
	for p, name := range *names {
		if _, err := strconv.ParseInt(values[0][p], 10, 64); err == nil && name != "" {
			known = append(known, name)
			for i := range at {
				n, _ := strconv.ParseInt(values[i][p], 10, 64)
				at[i] = append(at[i], n)
			}
		}
	}
	for p := range known {
		if e := linear(numbers, known[p:p+1], at, p); e != "" {
			return e
		}
	}
	return linear(numbers, known, at, 0)
}

// linear returns numbers as a linear function of the parameters called names, whose values in use i are at[i][first:],
// or an empty text.
func linear(numbers []int64, names []string, at [][]int64, first int) string {
	slopes, base := make([]int64, len(names)), numbers[0]
	for p := range names {
		slopes[p] = slope(numbers, at, first, len(names), p)
		base -= slopes[p] * at[0][first+p]
	}
	var e string
	for p, name := range names {
		switch {
		case slopes[p] == 1:
			e += "+" + name
		case slopes[p] != 0:
			e += fmt.Sprintf("%+d*%s", slopes[p], name)
		}
	}
	for i, n := range numbers {
		sum := base
		for p, s := range slopes {
			sum += s * at[i][first+p]
		}
		if sum != n {
			return ""
		}
	}
	if base != 0 {
		e = fmt.Sprint(base, e)
	}
	return strings.TrimPrefix(e, "+")
}

// slope returns by how much numbers grow with parameter p, from two uses that differ in it alone.
func slope(numbers []int64, at [][]int64, first, count, p int) int64 {
	for i := range numbers {
		for j := range i {
			a, b := slices.Clone(at[i][first:first+count]), slices.Clone(at[j][first:first+count])
			by := a[p] - b[p]
			a[p] = b[p]
			if by != 0 && slices.Equal(a, b) {
				return (numbers[i] - numbers[j]) / by
			}
		}
	}
	return 0
}

// widened returns a parameter that is the same register as another one, of another width, or a new parameter for
// temporary registers, which may differ because avo reuses registers after their last use.
func widened(here []string, names *[]string, values [][]string) string {
	for p, name := range *names {
		equal := true
		for i, h := range here {
			a, b := vectorName.FindStringSubmatch(h), vectorName.FindStringSubmatch(values[i][p])
			equal = equal && a != nil && b != nil && a[2] == b[2]
		}
		if equal {
			return added(name+vectorName.FindStringSubmatch(here[0])[1], here, names, values)
		}
	}
	for _, h := range here {
		if !registerName.MatchString(h) {
			return ""
		}
	}
	return added(fmt.Sprint("t", len(*names)), here, names, values)
}

// added adds a parameter with these values.
func added(name string, here []string, names *[]string, values [][]string) string {
	*names = append(*names, name)
	for i, h := range here {
		values[i] = append(values[i], h)
	}
	return name
}
