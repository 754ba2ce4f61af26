package shim

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
)

// piece is a binding: its address and memory.
type piece struct {
	address uint64
	data    []byte
}

// access tells who has used a word of shared memory.
type access struct {
	written, read  uint32 // epoch of the last write and of the last read, or 0
	writer, reader int32  // the thread; reader is -1 for several
	atomic         bool   // the last write, or the last read, was atomic
	pending        int32  // copies to it that are not waited for
	used           int32  // products of warpgroups that read it and are not waited for
	time           uint32 // of the last write
	readTime       uint32 // and of the last read
	group          int32  // of the product that has read it last: its first thread and one, or -1 for several
}

var (
	transfer = regexp.MustCompile(`^(ld|st)\.(relaxed\.gpu\.|relaxed\.cta\.)?(global|shared)(\.nc)?` +
		`(?:\.L1::no_allocate)?(?:\.v([24]))?\.([usfb])32$`)
	addition = regexp.MustCompile(`^atom\.relaxed\.(?:gpu|cta)\.(global|shared)\.add\.u32$`)
)

// memoryOp returns a function that reads the operands of an instruction that reads or writes memory. It returns nil for
// other instructions.
func (p *program) memoryOp(op string) func(in *instruction, args []string) error {
	if op == "ld.param.u64" {
		return func(in *instruction, args []string) error {
			n, ok := p.params[strings.Trim(args[1], "[]")]
			if !ok {
				return fmt.Errorf("no parameter %s", args[1])
			}
			in.run = func(m *machine, in *instruction, lanes []int32) {
				for _, l := range lanes {
					m.doubles[in.a[0]][l] = m.params[n]
				}
			}
			return p.operands(in, "d=", args[:1])
		}
	}
	if f := addition.FindStringSubmatch(op); f != nil {
		return func(in *instruction, args []string) error { return p.add(in, f[1] == "shared", args) }
	}
	f := transfer.FindStringSubmatch(op)
	if f == nil {
		return nil
	}
	return func(in *instruction, args []string) error {
		in.n = 1
		if f[5] != "" {
			in.n = int(f[5][0] - '0')
		}
		if len(args) != in.n+1 {
			return fmt.Errorf("%d operands; want %d", len(args), in.n+1)
		}
		class := map[string]string{"f": "f", "u": "r", "s": "r", "b": "r"}[f[6]]
		atomic := f[2] != ""
		words, address := args[:in.n], args[in.n]
		takes := strings.Repeat(class, in.n) + "="
		if f[1] == "st" {
			address, words = args[0], args[1:]
			takes = "=" + strings.Repeat(class, in.n)
		}
		if err := p.operands(in, takes, words); err != nil {
			return err
		}
		if f[3] == "shared" {
			in.run = func(m *machine, in *instruction, lanes []int32) { m.loadShared(in, lanes, atomic) }
			if f[1] == "st" {
				in.run = func(m *machine, in *instruction, lanes []int32) { m.storeShared(in, lanes, atomic) }
			}
			return p.address(in, 0, wordClass, address)
		}
		in.run = (*machine).loadGlobal
		if f[1] == "st" {
			in.run = (*machine).storeGlobal
		}
		return p.address(in, 0, doubleClass, address)
	}
}

// add reads the operands of an atomic addition.
func (p *program) add(in *instruction, shared bool, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%d operands; want 3", len(args))
	}
	in.n = 1
	if err := p.operands(in, "r=r", []string{args[0], args[2]}); err != nil {
		return err
	}
	if shared {
		in.run = (*machine).addShared
		return p.address(in, 0, wordClass, args[1])
	}
	in.run = (*machine).addGlobal
	return p.address(in, 0, doubleClass, args[1])
}

// global returns the memory at address i of an instruction, for bytes bytes. It returns nil after an error.
func (m *machine) global(in *instruction, i int, lane int32, bytes uint64) []byte {
	at := m.doubles[in.a[15-i]][lane] + uint64(in.offset[i])
	if at&(bytes-1) != 0 {
		m.fail(in, lane, "address %#x is not a multiple of %d", at, bytes)
		return nil
	}
	p := &m.pieces[in.piece]
	if at-p.address >= uint64(len(p.data)) || at-p.address+bytes > uint64(len(p.data)) {
		for i := range m.pieces {
			if p = &m.pieces[i]; at >= p.address && at-p.address+bytes <= uint64(len(p.data)) {
				in.piece = i
				return p.data[at-p.address:]
			}
		}
		m.fail(in, lane, "address %#x is outside of the bindings", at)
		return nil
	}
	return p.data[at-p.address:]
}

func (m *machine) loadGlobal(in *instruction, lanes []int32) {
	for _, l := range lanes {
		b := m.global(in, 0, l, uint64(4*in.n))
		if b == nil {
			return
		}
		for i := range in.n {
			m.words[in.a[i]][l] = binary.LittleEndian.Uint32(b[4*i:])
		}
	}
}

func (m *machine) storeGlobal(in *instruction, lanes []int32) {
	for _, l := range lanes {
		b := m.global(in, 0, l, uint64(4*in.n))
		if b == nil {
			return
		}
		if in.piece == len(m.pieces)-1 {
			m.fail(in, l, "a write to the parameters")
			return
		}
		for i := range in.n {
			binary.LittleEndian.PutUint32(b[4*i:], m.words[in.a[i]][l])
		}
	}
}

func (m *machine) addGlobal(in *instruction, lanes []int32) {
	for _, l := range lanes {
		b := m.global(in, 0, l, 4)
		if b == nil {
			return
		}
		old := binary.LittleEndian.Uint32(b)
		binary.LittleEndian.PutUint32(b, old+m.words[in.a[1]][l])
		m.words[in.a[0]][l] = old
	}
}

// word returns the index of the word of shared memory that an instruction uses. It returns -1 after an error.
func (m *machine) word(in *instruction, lane int32) int {
	at := int64(m.words[in.a[15]][lane]) + in.offset[0]
	if at&int64(4*in.n-1) != 0 || at < 0 || at+int64(4*in.n) > int64(4*len(m.shared)) {
		m.fail(in, lane, "address %d of %d bytes in shared memory", at, 4*in.n)
		return -1
	}
	return int(at >> 2)
}

// seen checks a read of a word of shared memory.
func (m *machine) seen(in *instruction, lane int32, k int, atomic bool) {
	a := &m.access[k]
	if a.pending > 0 {
		m.fail(in, lane, "a read of shared memory at %d, to which a copy is not complete", 4*k)
	}
	if a.written < m.first {
		m.fail(in, lane, "a read of shared memory at %d, which is not written", 4*k)
	}
	if a.written == m.epoch && a.writer != lane && !(atomic && a.atomic) && !m.after(lane, a.writer, a.time) {
		m.fail(in, lane, "a race: thread %d has written shared memory at %d since the last barrier", a.writer, 4*k)
	}
	if a.read != m.epoch {
		a.read, a.reader = m.epoch, lane
		a.atomic = atomic && (a.written != m.epoch || a.atomic)
	} else if a.reader != lane {
		a.reader = -1
	}
	a.readTime, a.group = m.time, 0
}

// who names the thread that has read a word last.
func (a *access) who() string {
	if a.reader < 0 {
		return "another thread"
	}
	return fmt.Sprintf("thread %d", a.reader)
}

// wrote checks a write of a word of shared memory.
func (m *machine) wrote(in *instruction, lane int32, k int, atomic bool) {
	a := &m.access[k]
	both := atomic && a.atomic
	if a.used > 0 {
		m.fail(in, lane, "a write of shared memory at %d, which a product reads that is not waited for", 4*k)
	}
	if a.written == m.epoch && a.writer != lane && !both && !m.after(lane, a.writer, a.time) {
		m.fail(in, lane, "a race: thread %d has written shared memory at %d since the last barrier", a.writer, 4*k)
	}
	if a.read == m.epoch && a.reader != lane && !both && !m.afterReads(lane, a) {
		m.fail(in, lane, "a race: %s has read shared memory at %d since the last barrier", a.who(), 4*k)
	}
	if a.written != m.epoch && a.read != m.epoch {
		a.atomic = atomic
	} else {
		a.atomic = both
	}
	a.written, a.writer, a.time = m.epoch, lane, m.time
}

func (m *machine) loadShared(in *instruction, lanes []int32, atomic bool) {
	var to [4][]uint32
	for i := range in.n {
		to[i] = m.words[in.a[i]]
	}
	for _, l := range lanes {
		k := m.word(in, l)
		if k < 0 {
			return
		}
		for i := range in.n {
			// the usual case first: it is not written since the last barrier, and has been read
			a := &m.access[k+i]
			if a.read != m.epoch || a.written == m.epoch || a.reader >= 0 || a.pending > 0 || atomic {
				m.seen(in, l, k+i, atomic)
			}
			to[i][l] = m.shared[k+i]
		}
	}
}

func (m *machine) storeShared(in *instruction, lanes []int32, atomic bool) {
	for _, l := range lanes {
		k := m.word(in, l)
		if k < 0 {
			return
		}
		for i := range in.n {
			m.wrote(in, l, k+i, atomic)
			m.shared[k+i] = m.words[in.a[i]][l]
		}
	}
}

func (m *machine) addShared(in *instruction, lanes []int32) {
	for _, l := range lanes {
		k := m.word(in, l)
		if k < 0 {
			return
		}
		if m.access[k].written < m.first {
			m.fail(in, l, "an addition to shared memory at %d, which is not written", 4*k)
			return
		}
		m.wrote(in, l, k, true)
		old := m.shared[k]
		m.shared[k] = old + m.words[in.a[1]][l]
		m.words[in.a[0]][l] = old
	}
}
