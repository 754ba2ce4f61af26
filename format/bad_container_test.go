package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// badFile is an artifact that is broken in one way, and the check that must report it.
type badFile struct {
	check int
	name  string
	forge func(f *forgery)
}

// testBadFiles makes each file and checks that its check, and no other, reports an error.
func testBadFiles(t *testing.T, list []badFile) {
	if _, err := verifyBytes(forge(t).file()); err != nil {
		t.Fatalf("the file to be broken: %v", err)
	}
	for _, c := range list {
		f := forge(t)
		c.forge(f)
		_, err := verifyBytes(f.file())
		if !errors.Is(err, code.Verifier(c.check)) {
			code, _ := diag.CodeOf(err)
			t.Errorf("check %d, %s: %v %v", c.check, c.name, code, err)
		}
	}
}

// put returns a function that overwrites bytes of the file at off.
func put(off int, b ...byte) func([]byte) []byte {
	return func(file []byte) []byte { copy(file[off:], b); return file }
}

func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func le64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// entry returns a function that changes one section's entry in the table.
func entry(k Kind, change func(*Section)) func([]Section) []Section {
	return func(list []Section) []Section {
		for i := range list {
			if list[i].Kind == k {
				change(&list[i])
			}
		}
		return list
	}
}

func TestBadContainers(t *testing.T) {
	raw := func(b func([]byte) []byte) func(*forgery) { return func(f *forgery) { f.raw = b } }
	final := func(b func([]byte) []byte) func(*forgery) { return func(f *forgery) { f.final = b } }
	table := func(k Kind, change func(*Section)) func(*forgery) {
		return func(f *forgery) { f.table = entry(k, change) }
	}
	extra := func(s Section) func(*forgery) { return func(f *forgery) { f.extra = []Section{s} } }
	swap := func(i, j int) func(*forgery) {
		return func(f *forgery) {
			f.table = func(list []Section) []Section { list[i], list[j] = list[j], list[i]; return list }
		}
	}
	unknown := Section{Kind: Kind{'X', 'T', 'R', 'A'}, Align: 64, Size: 40}
	with := func(change func(*Section)) Section { s := unknown; change(&s); return s }
	const wgts = 6 // index of WGTS in the table
	at := func(section, field int) int { return HeaderSize + section*EntrySize + field }

	testBadFiles(t, []badFile{
		{2, "empty file", final(func([]byte) []byte { return nil })},
		{2, "other magic", final(put(0, 'G', 'G', 'U', 'F'))},
		{2, "text-mode damage",
			final(func(b []byte) []byte { return bytes.Replace(b, []byte("\r\n"), []byte("\n"), 1) })},
		{2, "half a header", final(func(b []byte) []byte { return b[:100] })},
		{2, "newer major", raw(put(offMajor, 2))},
		{2, "header size", raw(put(offHeaderSize, 129))},
		{2, "table offset", raw(put(offTableOffset, 0, 1))},
		{2, "entry size", raw(put(offEntrySize, 96))},
		{3, "bit of the CRC", final(func(b []byte) []byte { b[offCRC] ^= 1; return b })},
		{3, "bit of a count", final(func(b []byte) []byte { b[offSections] ^= 1; return b })},
		{3, "reserved byte", raw(put(offReserved, 1))},
		{3, "second reserved byte", raw(put(offReserved2+27, 1))},
		{3, "reserved byte of an entry", raw(put(at(1, offEntryRes), 1))},
		{3, "unknown flag", table(KindGraph, func(s *Section) { s.Flags |= 8 })},
		{4, "cut short", final(func(b []byte) []byte { return b[:len(b)-1] })},
		{4, "appended to", final(func(b []byte) []byte { return append(b, 0) })},
		{4, "huge claim", raw(put(offFileSize, le64(math.MaxUint64)...))},
		{5, "required feature", raw(put(offRequired, 1))},
		{5, "last required feature", raw(put(offRequired+7, 0x80))},
		{6, "no sections", raw(put(offSections, 0))},
		{6, "65 sections", raw(put(offSections, 65))},
		{6, "all sections there are", raw(put(offSections, le32(math.MaxUint32)...))},
		{6, "table past the file", func(f *forgery) {
			f.final = func(b []byte) []byte {
				b = b[:HeaderSize+EntrySize]
				copy(b[offFileSize:], le64(uint64(len(b))))
				sealHeader(b, nil)
				return b
			}
		}},
		{7, "byte of the root", final(func(b []byte) []byte {
			b[offRoot] ^= 1
			binary.LittleEndian.PutUint32(b[offCRC:], crcOf(b))
			return b
		})},
		{7, "digest in the table", final(func(b []byte) []byte { b[at(2, offDigest)] ^= 1; return b })},
		{7, "offset in the table", final(func(b []byte) []byte { b[at(0, offOffset)] ^= 64; return b })},
		{8, "alignment 128", table(KindMeta, func(s *Section) { s.Align = 128 })},
		{8, "misaligned", table(KindMeta, func(s *Section) { s.Offset++ })},
		{8, "inside the table", table(KindMeta, func(s *Section) { s.Offset = 128 })},
		{8, "empty", table(KindPlan, func(s *Section) { s.Size = 0 })},
		{8, "beyond the file", table(KindWeight, func(s *Section) { s.Size++ })},
		{8, "wraps", table(KindWeight, func(s *Section) { s.Size = -1 })},
		{8, "offset near 2^64", table(KindWeight, func(s *Section) { s.Offset = -65536 })},
		{8, "section over its limit", func(f *forgery) {
			f.extra = []Section{with(func(s *Section) { s.Size = MaxSectionSize + 1 })}
		}},
		{9, "overlap", table(KindGraph, func(s *Section) { s.Offset -= 64 })},
		{9, "same place", func(f *forgery) {
			f.table = func(l []Section) []Section { l[1].Offset = l[0].Offset; return l }
		}},
		{9, "descending", swap(1, 2)},
		{9, "padding", raw(func(b []byte) []byte {
			off := binary.LittleEndian.Uint64(b[at(wgts, offOffset):])
			b[off-1] = 1
			return b
		})},
		{9, "bytes at the end", raw(func(b []byte) []byte {
			b = append(b, make([]byte, 64)...)
			copy(b[offFileSize:], le64(uint64(len(b))))
			return b
		})},
		{9, "one section", raw(put(offSections, 1))},
		{9, "a hole", table(KindMeta, func(s *Section) { s.Size = 1 })},
		{10, "unknown critical section", extra(with(func(s *Section) { s.Flags = FlagCritical }))},
		{10, "code",
			extra(with(func(s *Section) { s.Kind, s.Flags = Kind{'K', 'E', 'R', 'N'}, FlagCritical|FlagRaw }))},
		{10, "twice", func(f *forgery) {
			f.extra = []Section{unknown}
			f.table = entry(unknown.Kind, func(s *Section) { s.Kind, s.Flags = KindMeta, FlagCritical })
		}},
		{10, "chunks of something else", extra(with(func(s *Section) { s.Flags = FlagChunked }))},
		{10, "raw debug info", extra(with(func(s *Section) { s.Kind, s.Flags = Kind{'D', 'B', 'G', 'I'}, FlagRaw }))},
		{10, "no PLAN", table(KindPlan, func(s *Section) { s.Kind, s.Flags = unknown.Kind, 0 })},
		{10, "WGTS without CHNK", table(KindChunks, func(s *Section) { s.Kind, s.Flags = unknown.Kind, 0 })},
		{10, "CHNK without WGTS", table(KindWeight, func(s *Section) { s.Kind, s.Flags = unknown.Kind, 0 })},
		{10, "META not critical", table(KindMeta, func(s *Section) { s.Flags = 0 })},
		{10, "PLAN raw", table(KindPlan, func(s *Section) { s.Flags |= FlagRaw })},
		{11, "newer META", table(KindMeta, func(s *Section) { s.Version = Schema + 1 })},
		{11, "version 0 of SCHD", table(KindSched, func(s *Section) { s.Version = 0 })},
		{11, "newer WGTS", table(KindWeight, func(s *Section) { s.Version = math.MaxUint32 })},
		{12, "byte of META",
			raw(func(b []byte) []byte { b[binary.LittleEndian.Uint64(b[at(0, offOffset):])+3] ^= 1; return b })},
		{12, "byte of CHNK",
			raw(func(b []byte) []byte { b[binary.LittleEndian.Uint64(b[at(5, offOffset):])] ^= 1; return b })},
		{12, "byte of WGTS", raw(func(b []byte) []byte { b[len(b)-1] ^= 1; return b })},
		{12, "digest of an optional section", func(f *forgery) {
			f.extra = []Section{unknown}
			f.table = entry(unknown.Kind, func(s *Section) { s.SHA256[0] ^= 1 })
		}},
		{12, "too many chunks", func(f *forgery) {
			f.body = func(k Kind, b []byte) []byte {
				if k == KindChunks {
					b = append(b, make([]byte, 32)...)
				}
				return b
			}
		}},
	})
}

func crcOf(b []byte) uint32 {
	// Computes CRC-32C bit by bit from its definition, with the reflected polynomial 0x82f63b78.
	c := ^uint32(0)
	for _, x := range b[:offCRC] {
		c ^= uint32(x)
		for range 8 {
			c = c>>1 ^ 0x82f63b78*(c&1)
		}
	}
	return ^c
}

// TestOpenRefuses checks that check 1 refuses files that are not regular and, if the policy forbids it, files that
// everybody can write to.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.rlx")
	if err := os.WriteFile(path, artifactBytes(t), 0o644); err != nil {
		t.Fatal(err)
	}
	want := func(name, path string, p Policy, code diag.Code) {
		t.Helper()
		v, err := Open(path, p)
		if err == nil {
			v.Close()
		}
		var e *diag.Error
		if !errors.Is(err, code) || errors.As(err, &e) && e.Subject != path {
			t.Errorf("%s: %v, want %s", name, err, code)
		}
	}
	want("directory", dir, Policy{}, code.Verifier(1))
	want("device", os.DevNull, Policy{}, code.Verifier(1))
	want("missing", filepath.Join(dir, "b.rlx"), Policy{}, code.ArtifactMissing)
	want("another digest", path, Policy{Root: new([32]byte)}, code.Verifier(7))
	if v, err := Open(path, Policy{Unshared: true}); err != nil {
		t.Error(err)
	} else {
		v.Close()
	}
	for _, c := range []struct {
		name string
		mode os.FileMode
	}{{path, 0o646}, {dir, 0o777}} {
		st, err := os.Stat(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(c.name, c.mode); err != nil {
			t.Fatal(err)
		}
		want("writable by others", path, Policy{Unshared: true}, code.Verifier(1))
		if err := os.Chmod(c.name, st.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFileSizeLimit checks that check 1 refuses a file that is too large, before it looks at the contents.
func TestFileSizeLimit(t *testing.T) {
	for size, want := range map[int64]int{MaxFileSize: 2, MaxFileSize + 1: 1, math.MaxInt64: 1} {
		if _, err := Verify(holes{}, size, Policy{}); !errors.Is(err, code.Verifier(want)) {
			t.Errorf("%d bytes: %v, want check %d", size, err, want)
		}
	}
}

// TestNewerMinorLoads checks that a reader accepts additions of later minor versions: a higher minor number, optional
// features, and sections that are not critical.
func TestNewerMinorLoads(t *testing.T) {
	f := forge(t)
	f.extra = []Section{{Kind: Kind{'D', 'B', 'G', 'I'}, Align: 64, Size: 100, Version: 7, Items: 9},
		{Kind: Kind{'N', 'E', 'W', 1}, Align: 65536, Size: 70000, Version: 3, Flags: FlagRaw}}
	f.raw = func(b []byte) []byte {
		b[offMinor], b[offOptional] = 9, 0xff
		return b
	}
	v, err := verifyBytes(f.file())
	if err != nil {
		t.Fatal(err)
	}
	if major, minor := v.Version(); major != 1 || minor != 9 || len(v.Sections()) != 11 {
		t.Errorf("version %d.%d with %d sections", major, minor, len(v.Sections()))
	}
}
