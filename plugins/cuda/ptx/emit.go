package ptx

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// classes are the kinds of registers: their type and the letters that their names begin with.
var classes = []struct{ typ, letter string }{
	{".pred", "p"}, {".b16", "h"}, {".b32", "r"}, {".f32", "f"}, {".b64", "d"},
}

// fresh returns a new register of a class, which its letter names.
func (t *translator) fresh(letter string) string {
	n := t.registers[letter]
	t.registers[letter]++
	return fmt.Sprintf("%%%s%d", letter, n)
}

// letter returns the letter of the registers for a scalar type.
func letter(typ *wgsl.Type) string {
	switch typ {
	case wgsl.Bool:
		return "p"
	case wgsl.F32:
		return "f"
	}
	return "r"
}

// register returns a new register for a scalar of a type.
func (t *translator) register(typ *wgsl.Type) operand {
	return operand{reg: t.fresh(letter(typ)), most: math.MaxUint32}
}

// mostLines is the largest number of instructions in a text. The largest kernels have some 10000, but functions that
// call others several times can grow without bounds.
const mostLines = 1 << 18

// line writes an instruction.
func (t *translator) line(format string, args ...any) {
	if len(t.out) > mostLines {
		wgsl.Fail(t.begin, "more than %d instructions", mostLines)
	}
	t.out = append(t.out, "\t"+fmt.Sprintf(format, args...)+";\n")
}

// comment writes a comment.
func (t *translator) comment(format string, args ...any) {
	t.out = append(t.out, fmt.Sprintf("\t// "+format+"\n", args...))
}

// label returns the name of a new label.
func (t *translator) label(of string) string {
	t.labels++
	return fmt.Sprintf("$%s_%d", of, t.labels)
}

// place writes a label.
func (t *translator) place(label string) {
	t.out = append(t.out, label+":\n")
	t.ended = false
}

// jump writes a jump, after which no instruction is reached.
func (t *translator) jump(label string) {
	t.line("bra %s", label)
	t.ended = true
}

// result writes an instruction whose result is a scalar of a type. args are the operands, of the same type.
func (t *translator) result(op string, typ *wgsl.Type, args ...operand) operand {
	return t.from(op, typ, typ, args...)
}

// from is like result, for operands of type from.
func (t *translator) from(op string, typ, from *wgsl.Type, args ...operand) operand {
	texts, stable := make([]string, len(args)), true
	for i, a := range args {
		texts[i] = a.text(from)
		if from == wgsl.Bool {
			texts[i] = t.predicate(a)
		}
		stable = stable && !t.mutable[a.reg]
	}
	return t.once(op, typ, strings.Join(texts, ", "), stable)
}

// once writes an instruction unless an earlier one has computed the same. stable says that no operand is a variable.
func (t *translator) once(op string, typ *wgsl.Type, args string, stable bool) operand {
	return t.onceIn(letter(typ), op, args, stable)
}

// onceIn is like once, but for a result in a register of a class.
func (t *translator) onceIn(class, op, args string, stable bool) operand {
	key := op + " " + args
	if stable {
		for i := len(t.done) - 1; i >= 0; i-- {
			if o, ok := t.done[i][key]; ok {
				return o
			}
		}
	}
	to := operand{reg: t.fresh(class), most: math.MaxUint32}
	t.made[to.reg] = len(t.out)
	t.line("%s %s, %s", op, to.reg, args)
	if stable {
		t.done[len(t.done)-1][key] = to
		t.keys[to.reg] = key
	}
	return to
}

// branch translates code that is not always reached. So results of instructions in it are not reused after it.
func (t *translator) branch(f func()) {
	t.done = append(t.done, map[string]operand{})
	f()
	t.done = t.done[:len(t.done)-1]
}

// predicate returns a register that holds a bool.
func (t *translator) predicate(o operand) string {
	if o.reg != "" {
		return o.reg
	}
	p := t.fresh("p")
	t.line("mov.pred %s, %d", p, o.bits)
	return p
}

// move writes to = from, for a register to.
func (t *translator) move(typ *wgsl.Type, to, from operand) {
	switch {
	case t.moved(to.reg, from.reg):
	case typ == wgsl.Bool && from.constant():
		t.line("mov.pred %s, %d", to.reg, from.bits)
	case typ == wgsl.Bool:
		t.line("mov.pred %s, %s", to.reg, from.reg)
	case to.reg != from.reg:
		t.line("mov%s %s, %s", suffix(typ), to.reg, from.text(typ))
	}
}

// suffix returns the PTX type of a scalar.
func suffix(typ *wgsl.Type) string {
	switch typ {
	case wgsl.Bool:
		return ".pred"
	case wgsl.F32:
		return ".f32"
	case wgsl.I32:
		return ".s32"
	}
	return ".u32"
}

// kept returns scalars that later assignments do not change. It copies those in registers of variables.
func (t *translator) kept(typ *wgsl.Type, ops []operand) []operand {
	out := make([]operand, len(ops))
	for i, s := range scalars(typ) {
		out[i] = ops[i]
		if t.mutable[ops[i].reg] {
			out[i].reg = t.fresh(letter(s))
			t.move(s, out[i], ops[i])
		}
	}
	return out
}

// moved makes the instruction that computes a register write another register instead. The instruction must belong to
// the current statement, nothing may have used its result, and nothing may have used the other register since.
// Otherwise moved returns false.
func (t *translator) moved(to, from string) bool {
	n, ok := t.made[from]
	if !ok || n < t.start {
		return false
	}
	for _, line := range t.out[n+1:] {
		if line[0] == '$' || strings.Contains(line, "bra ") || find(line, to) >= 0 || find(line, from) >= 0 {
			return false
		}
	}
	delete(t.made, from)
	if key, ok := t.keys[from]; ok {
		here := t.done[len(t.done)-1]
		if _, ok := here[key]; !ok {
			return false
		}
		delete(here, key)
	}
	i := find(t.out[n], from)
	t.out[n] = t.out[n][:i] + to + t.out[n][i+len(from):]
	return true
}

// find returns the position of a register in an instruction, or -1.
func find(line, reg string) int {
	for at := 0; ; {
		i := strings.Index(line[at:], reg)
		if i < 0 {
			return -1
		}
		at += i + len(reg)
		if line[at] < '0' || line[at] > '9' {
			return at - len(reg)
		}
	}
}

// replace writes to = from, for the registers of a variable, if none of them is read after it is written.
func (t *translator) replace(typ *wgsl.Type, to, from []operand) {
	times := map[string]int{}
	for _, o := range from {
		if times[o.reg]++; times[o.reg] == 2 {
			delete(t.made, o.reg)
		}
	}
	for i, s := range scalars(typ) {
		t.move(s, to[i], from[i])
	}
}

// assign writes to = from, for the registers of a variable.
func (t *translator) assign(typ *wgsl.Type, to, from []operand) {
	mine := map[string]int{}
	for i, o := range to {
		mine[o.reg] = i
	}
	for i, o := range from {
		if k, ok := mine[o.reg]; ok && k < i { // it would be overwritten before it is read
			from = t.kept(typ, from)
			break
		}
	}
	t.replace(typ, to, from)
}

// variable returns the registers of a new variable with the given values.
func (t *translator) variable(typ *wgsl.Type, from []operand) []operand {
	out := make([]operand, len(from))
	for i, s := range scalars(typ) {
		out[i] = t.register(s)
		t.mutable[out[i].reg] = true
	}
	t.replace(typ, out, from)
	return out
}

// zeros returns the zero value of a type.
func zeros(typ *wgsl.Type) []operand { return make([]operand, count(typ)) }
