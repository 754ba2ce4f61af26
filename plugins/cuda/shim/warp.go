package shim

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// This file has the instructions that the 32 threads of a warp execute together, and copies to shared memory that
// complete only when a thread waits for them.

// warp is the number of threads in a warp.
const warp = 32

// copies are copies to shared memory that a thread has started and not waited for.
type copies struct {
	open   []pending   // not in a group yet
	groups [][]pending // the oldest first
}

// pending is a copy of four words.
type pending struct {
	to   int // word of shared memory
	data [4]uint32
}

var (
	shuffle = regexp.MustCompile(`^shfl\.sync\.(idx|bfly)\.b32$`)
	matrix  = regexp.MustCompile(`^ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared\.b16$`)
	product = regexp.MustCompile(
		`^mma\.sync\.aligned\.(m16n8k16|m16n8k8)\.row\.col\.f32\.(bf16|f16|tf32)\.(bf16|f16|tf32)\.f32$`)
)

// asyncOp returns a function that reads the operands of an instruction of this file. It returns nil for others.
func (p *program) asyncOp(op string) func(in *instruction, args []string) error {
	switch op {
	case "cp.async.cg.shared.global":
		return p.copy
	case "cp.async.commit_group", "cp.async.wait_all":
		return func(in *instruction, args []string) error {
			in.run = (*machine).commit
			if op == "cp.async.wait_all" {
				in.run = (*machine).waitAll
			}
			return p.operands(in, "=", nil)
		}
	case "cp.async.wait_group":
		return func(in *instruction, args []string) (err error) {
			in.run = (*machine).wait
			in.n, err = strconv.Atoi(args[0])
			return err
		}
	}
	if f := shuffle.FindStringSubmatch(op); f != nil {
		return func(in *instruction, args []string) error {
			if len(args) != 5 || args[3] != "31" || args[4] != "0xffffffff" {
				return fmt.Errorf("want a shuffle of 32 lanes")
			}
			other := func(lane, by int32) int32 { return by }
			if f[1] == "bfly" {
				other = func(lane, by int32) int32 { return lane ^ by }
			}
			in.run = func(m *machine, in *instruction, lanes []int32) { m.shuffle(in, lanes, other) }
			class := "r"
			if args[0][1] == floatClass {
				class = "f"
			}
			return p.operands(in, class+"="+class+"r", args[:3])
		}
	}
	if f := matrix.FindStringSubmatch(op); f != nil {
		return func(in *instruction, args []string) error {
			return p.loadMatrices(in, int(f[1][0]-'0'), f[2] != "", args)
		}
	}
	if f := product.FindStringSubmatch(op); f != nil && f[2] == f[3] && (f[2] == "tf32") == (f[1] == "m16n8k8") {
		return func(in *instruction, args []string) error {
			in.run = func(m *machine, in *instruction, lanes []int32) { m.multiply(in, lanes, f[2]) }
			return p.operands(in, "ffff=rrrrrrffff", args)
		}
	}
	return nil
}

// copy reads cp.async.cg.shared.global [TO], [FROM], 16, SIZE. Bytes after the first SIZE are zeros. Without SIZE it is
// 16.
func (p *program) copy(in *instruction, args []string) error {
	if len(args) == 3 {
		args = append(args, "16")
	}
	if len(args) != 4 || args[2] != "16" {
		return fmt.Errorf("want a copy of 16 bytes")
	}
	in.n = 4
	in.run = func(m *machine, in *instruction, lanes []int32) {
		for _, l := range lanes {
			var from [16]byte
			k, size := m.word(in, l), m.words[in.a[0]][l]
			if size > 16 {
				m.fail(in, l, "a copy of %d of 16 bytes", size)
			}
			if size > 0 && m.err == nil {
				copy(from[:size], m.global(in, 1, l, 16))
			}
			if m.err != nil {
				return
			}
			c := pending{to: k}
			for i := range c.data {
				c.data[i] = binary.LittleEndian.Uint32(from[4*i:])
				m.wrote(in, l, k+i, false) // from now on, any time
				m.access[k+i].pending++
			}
			m.copies[l].open = append(m.copies[l].open, c)
		}
	}
	if err := p.operands(in, "=r", args[3:]); err != nil {
		return err
	}
	if err := p.address(in, 0, wordClass, args[0]); err != nil {
		return err
	}
	return p.address(in, 1, doubleClass, args[1])
}

func (m *machine) commit(_ *instruction, lanes []int32) {
	for _, l := range lanes {
		c := &m.copies[l]
		c.groups = append(c.groups, c.open)
		c.open = nil
	}
}

// complete makes copies of a thread visible, as its writes of now.
func (m *machine) complete(in *instruction, lane int32, list []pending) {
	for _, c := range list {
		for i, n := range c.data {
			m.access[c.to+i].pending--
			m.wrote(in, lane, c.to+i, false)
			m.shared[c.to+i] = n
		}
	}
}

func (m *machine) wait(in *instruction, lanes []int32) {
	for _, l := range lanes {
		c := &m.copies[l]
		for len(c.groups) > in.n {
			m.complete(in, l, c.groups[0])
			c.groups = c.groups[1:]
		}
	}
}

func (m *machine) waitAll(in *instruction, lanes []int32) {
	m.commit(in, lanes)
	m.wait(in, lanes)
}

// ended checks threads that end.
func (m *machine) ended(g group) {
	for _, l := range g.lanes {
		c := &m.copies[l]
		f := &m.flights[l/group4]
		if len(f.open.words) > 0 || len(f.groups) > 0 {
			m.fail(&m.p.code[g.pc], l, "the thread ends, and products are not waited for")
		}
		n := len(c.open)
		for _, list := range c.groups {
			n += len(list)
		}
		*c = copies{}
		if n > 0 {
			m.fail(&m.p.code[g.pc], l, "the thread ends, and %d copies are not waited for", n)
		}
	}
}

// warps calls f with the first lane of each warp. All its threads must execute the instruction.
func (m *machine) warps(in *instruction, lanes []int32, f func(first int32)) {
	for ; len(lanes) > 0; lanes = lanes[warp:] {
		if len(lanes) < warp || lanes[0]%warp != 0 || lanes[warp-1] != lanes[0]+warp-1 {
			m.fail(in, lanes[0], "only some threads of the warp execute the instruction")
			return
		}
		if f(lanes[0]); m.err != nil {
			return
		}
	}
}

// shuffle gives each lane the word of another one.
func (m *machine) shuffle(in *instruction, lanes []int32, other func(lane, by int32) int32) {
	d, a, b := m.words[in.a[0]], m.words[in.a[1]], m.words[in.a[2]]
	m.warps(in, lanes, func(first int32) {
		var out [warp]uint32
		for l := range int32(warp) {
			out[l] = a[first+other(l, int32(b[first+l]))&(warp-1)]
		}
		copy(d[first:], out[:])
	})
}

// loadMatrices reads ldmatrix of n matrices of 8x8 elements of 16 bits. Lanes 8i to 8i+7 have the addresses of the rows
// of matrix i. Lane l gets elements 2(l%4) and the next one of row l/4 or, transposed, of column l/4.
func (p *program) loadMatrices(in *instruction, n int, across bool, args []string) error {
	if len(args) != n+1 {
		return fmt.Errorf("%d operands; want %d", len(args), n+1)
	}
	if err := p.operands(in, strings.Repeat("r", n)+"=", args[:n]); err != nil {
		return err
	}
	in.n = 4
	in.run = func(m *machine, in *instruction, lanes []int32) {
		m.warps(in, lanes, func(first int32) {
			var rows [warp]int
			for i := range 8 * n {
				if rows[i] = m.word(in, first+int32(i)); rows[i] < 0 {
					return
				}
			}
			half := func(lane int32, matrix, row, column int) uint32 {
				k := rows[8*matrix+row] + column/2
				m.seen(in, lane, k, false)
				return m.shared[k] >> (16 * (column % 2)) & 0xffff
			}
			var out [4][warp]uint32
			for i := range n {
				for l := range warp {
					row, column, lane := l/4, l%4*2, first+int32(l)
					if across {
						out[i][l] = half(lane, i, column, row) | half(lane, i, column+1, row)<<16
					} else {
						out[i][l] = half(lane, i, row, column) | half(lane, i, row, column+1)<<16
					}
				}
			}
			for i := range n {
				copy(m.words[in.a[i]][first:], out[i][:])
			}
		})
	}
	return p.address(in, 0, wordClass, args[n])
}

// multiply computes D = A B + C for a 16xK matrix A, a Kx8 matrix B and 16x8 matrices C and D of f32, where K is 16 or,
// for tf32, 8. The sums are exact and rounded once; sums on a GPU are less accurate.
func (m *machine) multiply(in *instruction, lanes []int32, typ string) {
	m.warps(in, lanes, func(first int32) {
		var a [16][16]float64
		var b [16][8]float64
		for l := range warp {
			row, k := l/4, l%4
			for i := range 6 {
				w := m.words[in.a[4+i]][first+int32(l)]
				for h := range 2 {
					var x float64
					at := 2*k + h + i/2%2*8 // of A
					switch typ {
					case "bf16":
						x = value(w >> (16 * h) << 16)
					case "f16":
						x = float64(half(uint16(w >> (16 * h))))
					default:
						x, at = value(w&^0x1fff), k+i/2%2*4
					}
					if i < 4 {
						a[row+i%2*8][at] = x
						continue
					}
					if typ == "tf32" {
						at = k + (i-4)*4
					} else {
						at = 2*k + h + (i-4)*8
					}
					b[at][row] = x
				}
			}
		}
		var out [4][warp]uint32
		for l := range warp {
			for i := range 4 {
				row, column := l/4+i/2*8, l%4*2+i%2
				sum := value(m.words[in.a[10+i]][first+int32(l)])
				for k := range a[row] {
					if typ == "tf32" && k >= 8 {
						break
					}
					sum += a[row][k] * b[k][column]
				}
				out[i][l] = math.Float32bits(float32(sum))
			}
		}
		for i := range out {
			copy(m.words[in.a[i]][first:], out[i][:])
		}
	})
}
