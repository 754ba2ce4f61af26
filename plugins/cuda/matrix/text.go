package matrix

import (
	"fmt"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// text builds the PTX of a kernel.
type text struct {
	body   strings.Builder
	counts map[string]int // registers of each prefix
	labels int
}

// registers lists the prefixes of registers and their types.
var registers = []struct{ prefix, typ string }{{"r", "b32"}, {"d", "b64"}, {"f", "f32"}, {"p", "pred"},
	{"h", "b16"}}

func newText() *text { return &text{counts: map[string]int{}} }

// reg returns a new register, such as %r3.
func (t *text) reg(prefix string) string {
	t.counts[prefix]++
	return fmt.Sprintf("%%%s%d", prefix, t.counts[prefix]-1)
}

func (t *text) regs(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = t.reg(prefix)
	}
	return out
}

// add adds an instruction.
func (t *text) add(format string, args ...any) { fmt.Fprintf(&t.body, "  "+format+";\n", args...) }

// get adds an instruction with a new register for its result, which it returns. The result is the first operand of the
// instruction: get("r", "add.u32", "%s, %s", a, b).
func (t *text) get(prefix, instruction, format string, args ...any) string {
	r := t.reg(prefix)
	t.add("%s %s, %s", instruction, r, fmt.Sprintf(format, args...))
	return r
}

func (t *text) label() string {
	t.labels++
	return fmt.Sprintf("L%d", t.labels)
}

func (t *text) place(label string) { fmt.Fprintf(&t.body, "%s:\n", label) }

// entry describes the entry of a text.
type entry struct {
	target  string // sm_80
	threads int
	shared  int // dynamic shared memory in bytes
	params  int // bindings
	blocks  int // that should fit on a processor
}

// finish returns the whole text.
func (t *text) finish(e entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, magic+"%d threads, %d bytes\n", e.threads, e.shared)
	fmt.Fprintf(&b, ".version 8.0\n.target %s\n.address_size 64\n\n", e.target)
	if e.shared > 0 {
		b.WriteString(".extern .shared .align 1024 .b8 memory[];\n\n")
	}
	fmt.Fprintf(&b, ".visible .entry %s(\n", entryName)
	for i := range e.params {
		end := ","
		if i == e.params-1 {
			end = ""
		}
		fmt.Fprintf(&b, "  .param .u64 at%d,\n  .param .u64 length%d%s\n", i, i, end)
	}
	fmt.Fprintf(&b, ")\n.reqntid %d, 1, 1\n.minnctapersm %d\n{\n", e.threads, e.blocks)
	for _, r := range registers {
		if n := t.counts[r.prefix]; n > 0 {
			fmt.Fprintf(&b, "  .reg .%s %%%s<%d>;\n", r.typ, r.prefix, n)
		}
	}
	b.WriteString(t.body.String())
	b.WriteString("}\n")
	return b.String()
}

// binding loads the address of binding i, which begins skip bytes after the address that the kernel gets.
func (t *text) binding(i int, skip int64) string {
	p := t.reg("d")
	t.add("ld.param.u64 %s, [at%d]", p, i)
	t.add("cvta.to.global.u64 %s, %s", p, p)
	if skip > 0 {
		t.add("add.u64 %s, %s, %d", p, p, skip)
	}
	return p
}

// words loads the words of the parameters at an address.
func (t *text) words(at string, fields []string) map[string]string {
	out := map[string]string{}
	for i, f := range fields {
		out[f] = t.get("r", "ld.global.nc.u32", "[%s+%d]", at, 4*i)
	}
	return out
}

// mma adds the product of fragments of 16x16 and 16x8 elements of 16 bits to sums.
func (t *text) mma(typ dtype.DType, sums, a, b []string) {
	t.add("mma.sync.aligned.m16n8k16.row.col.f32.%[1]v.%[1]v.f32 {%[2]s}, {%[3]s}, {%[4]s}, {%[2]s}", typ,
		strings.Join(sums, ", "), strings.Join(a, ", "), strings.Join(b, ", "))
}

// skips returns the bytes to skip in each binding. The error says that a value lies in several windows, which kernels
// of this package do not take.
func skips(bindings []kernels.Binding, views []kernels.View) (out []int64, err error) {
	for i, v := range views {
		if len(v.Windows) != 1 {
			return nil, fmt.Errorf("operand %s has %d windows; kernels for matrix units take one", bindings[i].Name,
				len(v.Windows))
		}
		out = append(out, v.Skip*int64(bindings[i].DType.Size()))
	}
	return out, nil
}
