package shim

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file has the products of warpgroups. According to PTX, they read shared memory and write their sums at any time
// until a thread waits for them, and they see writes of threads only after fence.proxy.async.

// group4 is the number of threads in a warpgroup.
const group4 = 4 * warp

// flight is the memory and the registers that products of a warpgroup use until they are waited for.
type flight struct {
	open   use // of products that are in no group yet
	groups []use
}

// use lists words of shared memory and registers, each as often as a product uses it: its sums, and the left operand if
// that is in registers.
type use struct {
	words      []int
	sums, left []int32
}

var warpgroupProduct = regexp.MustCompile(
	`^wgmma\.mma_async\.sync\.aligned\.m64n(\d+)(k16|k8)\.f32\.(bf16|f16|tf32)\.(bf16|f16|tf32)$`)

// warpgroupOp returns a function that reads the operands of an instruction of this file. It returns nil for others.
func (p *program) warpgroupOp(op string) func(in *instruction, args []string) error {
	plain := func(run func(m *machine, in *instruction, first int32)) func(in *instruction, args []string) error {
		return func(in *instruction, args []string) (err error) {
			in.run = grouped(run)
			if args[0] != "" {
				in.n, err = strconv.Atoi(args[0])
			}
			return err
		}
	}
	switch op {
	case "fence.proxy.async.shared::cta":
		return func(in *instruction, _ []string) error {
			in.run = func(m *machine, in *instruction, lanes []int32) {
				for _, l := range lanes {
					m.fenced[l] = m.time
				}
			}
			return nil
		}
	case "wgmma.fence.sync.aligned":
		return plain(func(*machine, *instruction, int32) {})
	case "wgmma.commit_group.sync.aligned":
		return plain(func(m *machine, _ *instruction, first int32) {
			f := &m.flights[first/group4]
			f.groups = append(f.groups, f.open)
			f.open = use{}
		})
	case "wgmma.wait_group.sync.aligned":
		return plain(func(m *machine, in *instruction, first int32) {
			f := &m.flights[first/group4]
			for len(f.groups) > in.n {
				m.landed(first, f.groups[0])
				f.groups = f.groups[1:]
			}
		})
	}
	f := warpgroupProduct.FindStringSubmatch(op)
	if f == nil || f[3] != f[4] || (f[2] == "k8") != (f[3] == "tf32") {
		return nil
	}
	return func(in *instruction, args []string) error {
		in.n, _ = strconv.Atoi(f[1])
		n := in.n / 2
		if in.n%8 != 0 || in.n > 256 || len(args) < n+3 {
			return fmt.Errorf("want sums of 64 x N")
		}
		// the left operand is in shared memory or, in 16 bits, in registers; the right one may then lie across K
		left, takes, ends := 1, "=ddp", []string{"1 1 0 0"}
		switch {
		case f[3] == "tf32":
			ends[0] = "1 1"
		case args[n][1] == wordClass && len(args) == n+9:
			left, takes, ends = 4, "=rrrrdp", []string{"1 1 0", "1 1 1"}
		}
		end := strings.Join(args[n+left+2:], " ")
		if !slices.Contains(ends, end) {
			return fmt.Errorf("want a left operand in rows along K")
		}
		across := left == 4 && end == ends[1]
		var sums instruction
		for _, a := range args[:n] {
			if err := p.operands(&sums, "=f", []string{a}); err != nil {
				return err
			}
			in.sums = append(in.sums, sums.a[0])
		}
		in.run = grouped(func(m *machine, in *instruction, first int32) {
			m.multiplyGroup(in, first, f[3], left, across)
		})
		err := p.operands(in, takes, args[n:n+left+2])
		if left == 4 {
			in.left = in.a[:4]
		}
		in.reads, in.writes = append(in.reads, sums.reads...), sums.reads
		return err
	}
}

// grouped makes an instruction of a function of the first lane of a warpgroup.
func grouped(f func(m *machine, in *instruction, first int32)) func(m *machine, in *instruction, lanes []int32) {
	return func(m *machine, in *instruction, lanes []int32) {
		for ; len(lanes) > 0; lanes = lanes[group4:] {
			if len(lanes) < group4 || lanes[0]%group4 != 0 || lanes[group4-1] != lanes[0]+group4-1 {
				m.fail(in, lanes[0], "only some threads of the warpgroup execute the instruction")
				return
			}
			if f(m, in, lanes[0]); m.err != nil {
				return
			}
		}
	}
}

// landed ends the use of memory and registers by products of the warpgroup that begins at a lane. Memory that they have
// read counts as read now, since each warp waits only for its own part.
func (m *machine) landed(first int32, u use) {
	for _, k := range u.words {
		a := &m.access[k]
		a.used--
		m.readBy(a, first)
	}
	for _, r := range u.sums {
		m.flying[first/group4][r]--
	}
	for _, r := range u.left {
		m.held[first/group4][r]--
	}
}

// operand reads a matrix of rows along K from shared memory, 16 values of each row, or 8 of TF32. A descriptor has the
// address, and the distance of groups of eight rows; rows have 128 bytes, in which the bits 4 to 6 of an address are
// exclusive with bits 7 to 9. If the matrix lies across K, the rows of 128 bytes are those of a value of K; the next 64
// columns of the matrix are at the other distance.
func (m *machine) operand(in *instruction, first int32, descriptor uint64, rows int, typ string, across bool,
	u *use) [][16]float64 {
	if descriptor>>62 != 1 || descriptor>>49&7 != 0 {
		m.fail(in, first, "descriptor %#x; want a swizzle of 128 bytes without an offset", descriptor)
		return nil
	}
	fenced := slices.Min(m.fenced[first : first+group4]) // since then, the threads see all that is visible to them
	out := make([][16]float64, rows)
	lines, words := rows, 8
	if across {
		lines, words = 16, rows/2
	}
	for line := range lines {
		for word := range words {
			at := int(descriptor&0x3fff)<<4 + line/8*(int(descriptor>>32&0x3fff)<<4) + line%8*128 + word%32*4 +
				word/32*(int(descriptor>>16&0x3fff)<<4)
			at ^= at >> 3 & 0x70
			row, k := line, 2*word
			if at+4 > 4*len(m.shared) {
				m.fail(in, first, "address %d in shared memory", at)
				return nil
			}
			a := &m.access[at/4]
			switch {
			case a.pending > 0 || a.written < m.first:
				m.seen(in, first, at/4, false)
			case a.written == m.epoch && (a.writer < first || a.writer >= first+group4) &&
				!m.groupAfter(first, a.writer, a.time):
				m.fail(in, first, "a race: thread %d has written shared memory at %d since the last barrier", a.writer, at)
			case a.time >= m.fenced[a.writer] && a.time >= fenced:
				m.fail(in, first, "a product reads shared memory at %d, and thread %d has no fence after its write", at,
					a.writer)
			}
			a.used++
			u.words = append(u.words, at/4)
			if typ == "tf32" { // a word is one of eight values
				out[row][k/2] = value(m.shared[at/4] &^ 0x1fff)
				continue
			}
			for h := range 2 {
				w := m.shared[at/4] >> (16 * h) & 0xffff
				to := &out[row][(k+h)%16]
				if across {
					to = &out[2*word+h][line]
				}
				*to = narrowed(w, typ)
			}
		}
	}
	return out
}

// narrowed returns a value of 16 bits.
func narrowed(w uint32, typ string) float64 {
	if typ == "bf16" {
		return value(w << 16)
	}
	return float64(half(uint16(w)))
}

// inRegisters returns a 64x16 matrix in registers of a warpgroup. Each warp has 16 rows, laid out as for mma.
func (m *machine) inRegisters(registers []int32, first int32, typ string) [][16]float64 {
	out := make([][16]float64, 64)
	for l := range int32(group4) {
		for i, r := range registers {
			w := m.words[r][first+l]
			row := l/warp*16 + l%warp/4 + int32(i%2*8)
			for h := range 2 {
				out[row][int(l%4)*2+h+i/2*8] = narrowed(w>>(16*h)&0xffff, typ)
			}
		}
	}
	return out
}

// multiplyGroup adds the product of a 64x16 matrix and a 16xN matrix to the sums of a warpgroup, or sets them to it.
// left is the number of operands of the first: 1 for a descriptor, or 4 registers.
func (m *machine) multiplyGroup(in *instruction, first int32, typ string, left int, across bool) {
	u := &m.flights[first/group4].open
	var a [][16]float64
	if left == 1 {
		a = m.operand(in, first, m.doubles[in.a[0]][first], 64, typ, false, u)
	} else {
		a = m.inRegisters(in.left, first, typ)
		if m.held[first/group4] == nil {
			m.held[first/group4] = map[int32]int{}
		}
		for _, r := range in.left {
			m.held[first/group4][r]++
		}
		u.left = append(u.left, in.left...)
	}
	b := m.operand(in, first, m.doubles[in.a[left]][first], in.n, typ, across, u)
	if m.err != nil {
		return
	}
	for i, r := range in.sums {
		column := i/4*8 + i%2
		for l := range int32(group4) {
			row := l/warp*16 + l%warp/4 + int32(i/2%2*8)
			sum := 0.0
			if m.bools[in.a[left+1]][first+l] {
				sum = value(m.words[r][first+l])
			}
			x, y := &a[row], &b[column+int(l%4)*2]
			for k := range x {
				sum += x[k] * y[k]
			}
			m.words[r][first+l] = math.Float32bits(float32(sum))
		}
		if m.flying[first/group4] == nil {
			m.flying[first/group4] = map[int32]int{}
		}
		m.flying[first/group4][r]++
	}
	u.sums = append(u.sums, in.sums...)
}

// watch makes the instructions that use sums of warpgroups, or write their left operands, report that they are not
// waited for.
func (p *program) watch() {
	sums, left := map[int32]bool{}, map[int32]bool{}
	for _, in := range p.code {
		for _, r := range in.sums {
			sums[r] = true
		}
		for _, r := range in.left {
			left[r] = true
		}
	}
	for i := range p.code {
		in := &p.code[i]
		if in.sums != nil || in.run == nil {
			continue
		}
		for _, r := range in.writes {
			if r.class == wordClass && left[r.n] {
				run := in.run
				in.run = func(m *machine, in *instruction, lanes []int32) {
					for _, l := range lanes {
						if m.held[l/group4][r.n] > 0 {
							m.fail(in, l, "%s is an operand of a product that is not waited for", p.name(r))
							return
						}
					}
					run(m, in, lanes)
				}
			}
		}
		for _, r := range append(in.reads[:len(in.reads):len(in.reads)], in.writes...) {
			if (r.class == wordClass || r.class == floatClass) && sums[r.n] {
				run := in.run
				in.run = func(m *machine, in *instruction, lanes []int32) {
					for _, l := range lanes {
						if m.flying[l/group4][r.n] > 0 {
							m.fail(in, l, "%s is a sum of a product that is not waited for", p.name(r))
							return
						}
					}
					run(m, in, lanes)
				}
			}
		}
	}
}

// divided refuses code that only some paths take between two products with left operands in registers, unless a loop
// begins there. PTX allows it, but for such code the ptxas of CUDA 12.9 gives both products the same registers, and so
// does NVIDIA's driver 580: an operand that is used again in the next iteration of a loop is then lost.
func (p *program) divided() error {
	loops := map[int]bool{}
	for i, in := range p.code {
		if in.kind == branch && in.target <= i {
			loops[in.target] = true
		}
	}
	var branches []int // after the last product
	found := false     // there is one, from which all paths lead here
	for i, in := range p.code {
		if loops[i] {
			found = false
		}
		if in.left != nil {
			for _, b := range branches {
				if found && p.code[b].target <= i {
					return p.at(p.code[b].line, fmt.Errorf("a branch between products with left operands in registers"))
				}
			}
			found, branches = true, nil
		}
		if in.kind == branch && in.target > i {
			branches = append(branches, i)
		}
		if in.guard < 0 && (in.kind == branch || in.kind == end) {
			found = false
		}
	}
	return nil
}
