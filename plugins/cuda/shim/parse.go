package shim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/plugins/cuda/ptx"
)

// program is a kernel in the form that a machine runs.
type program struct {
	threads, buffers int
	shared           int            // bytes
	params           map[string]int // position of each .param
	declared         map[byte]int   // number of registers of each class, by its letter
	code             []instruction

	words   map[uint32]int32 // numbers of the registers that hold constants
	doubles map[uint64]int32
	labels  map[string]int
	lines   []string
	idle    *machine // of an earlier launch
}

// The classes of registers, and what follows the registers of the text: r and f registers are words, f after r;
// constants come last.
const (
	wordClass   = 'r'
	floatClass  = 'f'
	boolClass   = 'p'
	doubleClass = 'd'
	halfClass   = 'h'
)

// register is a register of the text.
type register struct {
	class byte
	n     int32 // in the array of the machine for the class
}

// instruction is one line of the text.
type instruction struct {
	line   int // in the text, from 0
	kind   kind
	guard  int32 // number of the predicate, or -1
	not    bool  // it runs where the predicate is false
	target int   // of a branch
	run    func(m *machine, in *instruction, lanes []int32)
	a      [16]int32 // registers: first those that it writes, last those of addresses
	n      int       // elements of a vector in memory; groups that cp.async.wait_group leaves
	offset [2]int64  // of addresses, that in a[15] first
	piece  int       // binding that the last access was in
	sums   []int32   // registers of a product of a warpgroup
	left   []int32   // and of its left operand

	writes, reads []register
}

type kind int

const (
	compute kind = iota
	branch
	barrier
	await
	end
)

// assemble prepares a kernel for a number of bindings, and checks that it uses no register before it is written.
func assemble(k *ptx.Kernel, bindings int) (p *program, err error) {
	p = &program{threads: k.Threads, buffers: bindings, shared: max(k.Shared, k.Dynamic), params: map[string]int{},
		declared: map[byte]int{}, words: map[uint32]int32{}, doubles: map[uint64]int32{}, labels: map[string]int{},
		lines: strings.Split(k.Text, "\n")}
	var body []int // lines of the instructions
	for i, line := range p.lines {
		text := strings.TrimSpace(strings.TrimSuffix(line, ","))
		switch {
		case text == "" || strings.HasPrefix(text, "//") || text == "(" || text == ")" || text == "{" || text == "}":
		case strings.HasSuffix(text, ":"):
			p.labels[strings.TrimSuffix(text, ":")] = len(body)
		case strings.HasPrefix(text, ".param .u64 "):
			p.params[strings.TrimPrefix(text, ".param .u64 ")] = len(p.params)
		case strings.HasPrefix(text, ".reg "):
			if err = p.declare(text); err != nil {
				return nil, p.at(i, err)
			}
		case text[0] == '.':
		default:
			body = append(body, i)
		}
	}
	p.code = make([]instruction, len(body))
	for n, i := range body {
		if err := p.parse(&p.code[n], strings.TrimSuffix(strings.TrimSpace(p.lines[i]), ";")); err != nil {
			return nil, p.at(i, err)
		}
		p.code[n].line = i
	}
	if n := len(p.code); n == 0 || p.code[n-1].kind != end {
		return nil, errorf("the text does not end with ret")
	}
	p.watch()
	if err := p.divided(); err != nil {
		return nil, err
	}
	return p, p.defined()
}

// at adds a line of the text to an error.
func (p *program) at(line int, err error) error {
	return errorf("line %d: %s: %w", line+1, strings.TrimSpace(p.lines[line]), err)
}

// declare reads .reg .TYPE %LETTER<COUNT>;
func (p *program) declare(text string) error {
	var typ, name string
	if _, err := fmt.Sscanf(text, ".reg %s %s", &typ, &name); err != nil {
		return err
	}
	open := strings.IndexByte(name, '<')
	if open != 2 || name[0] != '%' || !strings.HasSuffix(name, ">;") {
		return fmt.Errorf("a declaration of registers is not %%LETTER<COUNT>")
	}
	want := map[byte]string{wordClass: ".b32", floatClass: ".f32", boolClass: ".pred", doubleClass: ".b64",
		halfClass: ".b16"}[name[1]]
	n, err := strconv.Atoi(name[open+1 : len(name)-2])
	if err != nil || typ != want {
		return fmt.Errorf("registers %s of type %s", name[:2], typ)
	}
	p.declared[name[1]] = n
	return nil
}

// parse reads an instruction.
func (p *program) parse(in *instruction, text string) error {
	in.guard = -1
	if text[0] == '@' {
		guard, rest, ok := strings.Cut(text[1:], " ")
		in.not = strings.HasPrefix(guard, "!")
		if !ok {
			return fmt.Errorf("a guard without an instruction")
		}
		r, err := p.register(strings.TrimPrefix(guard, "!"))
		if err != nil || r.class != boolClass {
			return fmt.Errorf("guard %s is no predicate", guard)
		}
		in.guard, text = r.n, rest
		in.reads = append(in.reads, r)
	}
	op, rest, _ := strings.Cut(text, " ")
	switch op {
	case "ret":
		in.kind = end
		return nil
	case "bra", "bra.uni":
		target, ok := p.labels[rest]
		if !ok {
			return fmt.Errorf("no label %s", rest)
		}
		in.kind, in.target = branch, target
		return nil
	case "bar.sync":
		in.kind = barrier
		if rest != "0" || in.guard >= 0 {
			return fmt.Errorf("want bar.sync 0 for all threads")
		}
		return nil
	}
	args := split(rest)
	if parse := p.mbarrierOp(op); parse != nil {
		return parse(in, args)
	}
	if parse := p.asyncOp(op); parse != nil {
		return parse(in, args)
	}
	if parse := p.warpgroupOp(op); parse != nil {
		return parse(in, args)
	}
	if parse := p.memoryOp(op); parse != nil {
		return parse(in, args)
	}
	if op == "mov.b32" {
		return p.reinterpret(in, args)
	}
	if op == "mov.u32" && len(args) == 2 && !strings.HasPrefix(args[1], "%r") {
		if run, ok := special[args[1]]; ok {
			in.run = run
			return p.operands(in, "r=", args[:1])
		}
	}
	o, ok := operations[op]
	if !ok {
		return fmt.Errorf("instruction %s is not supported", op)
	}
	in.run = o.run
	return p.operands(in, o.takes, args)
}

// reinterpret reads a move between registers of different classes.
func (p *program) reinterpret(in *instruction, args []string) error {
	takes := ""
	for i, a := range args {
		takes += a[1:2]
		if i == len(args)-2 {
			takes += "="
		}
	}
	switch takes {
	case "r=f", "f=r":
		in.run = words1("", move).run
	case "hh=r":
		in.run = func(m *machine, in *instruction, lanes []int32) {
			for _, l := range lanes {
				w := m.words[in.a[2]][l]
				m.halves[in.a[0]][l], m.halves[in.a[1]][l] = uint16(w), uint16(w>>16)
			}
		}
	default:
		return fmt.Errorf("a move of %s", takes)
	}
	return p.operands(in, takes, args)
}

var braces = strings.NewReplacer("{", "", "}", "")

// split returns operands, which commas separate. A vector in braces is split, too.
func split(text string) []string {
	var out []string
	for s := range strings.SplitSeq(braces.Replace(text), ",") {
		out = append(out, strings.TrimSpace(s))
	}
	return out
}

// operands stores operands. takes has their classes: those of written operands, a =, and those of read operands.
func (p *program) operands(in *instruction, takes string, args []string) error {
	written, read, _ := strings.Cut(takes, "=")
	if len(args) != len(written)+len(read) {
		return fmt.Errorf("%d operands; want %d", len(args), len(written)+len(read))
	}
	for i, a := range args {
		class := (written + read)[i]
		if a[0] != '%' {
			if i < len(written) {
				return fmt.Errorf("%s is written", a)
			}
			n, err := p.constant(class, a)
			if err != nil {
				return err
			}
			in.a[i] = n
			continue
		}
		r, err := p.register(a)
		if err != nil {
			return err
		}
		if r.class != class && !(class == floatClass && r.class == wordClass) { // .b32 is of any type
			return fmt.Errorf("%s is not a register of class %c", a, class)
		}
		in.a[i] = r.n
		if i < len(written) {
			in.writes = append(in.writes, r)
		} else {
			in.reads = append(in.reads, r)
		}
	}
	return nil
}

// register returns a register of the text.
func (p *program) register(name string) (register, error) {
	if len(name) > 2 && name[0] == '%' {
		n, err := strconv.Atoi(name[2:])
		if class := name[1]; err == nil && n >= 0 && n < p.declared[class] {
			if class == floatClass {
				n += p.declared[wordClass]
			}
			return register{class, int32(n)}, nil
		}
	}
	return register{}, fmt.Errorf("register %s is not declared", name)
}

// constant returns the number of the register that holds a constant.
func (p *program) constant(class byte, text string) (int32, error) {
	switch class {
	case doubleClass:
		n, err := strconv.ParseUint(text, 0, 64)
		return place(p.doubles, n, p.declared[doubleClass]), err
	case floatClass:
		if bits, ok := strings.CutPrefix(text, "0f"); ok && len(bits) == 8 {
			n, err := strconv.ParseUint(bits, 16, 32)
			return place(p.words, uint32(n), p.declared[wordClass]+p.declared[floatClass]), err
		}
	case wordClass:
		if n, err := strconv.ParseInt(text, 0, 64); err == nil && n >= -1<<31 && n < 1<<32 {
			return place(p.words, uint32(n), p.declared[wordClass]+p.declared[floatClass]), nil
		}
	case boolClass:
		if text == "0" || text == "1" {
			return int32(p.declared[boolClass]) + int32(text[0]-'0'), nil
		}
	}
	return 0, fmt.Errorf("%s is not a constant of class %c", text, class)
}

func place[T comparable](of map[T]int32, c T, before int) int32 {
	n, ok := of[c]
	if !ok {
		n = int32(before + len(of))
		of[c] = n
	}
	return n
}

// address reads [REGISTER+OFFSET] for a register of a class. It is address i of the instruction.
func (p *program) address(in *instruction, i int, class byte, text string) error {
	inner, ok := strings.CutPrefix(text, "[")
	inner, ok2 := strings.CutSuffix(inner, "]")
	name, offset, has := strings.Cut(inner, "+")
	if has {
		var err error
		if in.offset[i], err = strconv.ParseInt(offset, 10, 64); err != nil {
			return err
		}
	}
	r, err := p.register(name)
	if !ok || !ok2 || err != nil || r.class != class {
		return fmt.Errorf("%s is not an address in a register of class %c", text, class)
	}
	in.a[15-i] = r.n
	in.reads = append(in.reads, r)
	return nil
}
