package format

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
)

// magic begins with a byte that is invalid in UTF-8 and contains line ends, so that a transfer in text mode damages it.
const magic = "\x8bRLX\r\n\x1a\n"

// Kind is the FourCC of a section.
type Kind [4]byte

// The sections of version 1.
var (
	KindMeta   = Kind{'M', 'E', 'T', 'A'} // description of the artifact: producer, signature, task
	KindGraph  = Kind{'G', 'R', 'P', 'H'} // the graphs
	KindPlan   = Kind{'P', 'L', 'A', 'N'} // the places of values
	KindSched  = Kind{'S', 'C', 'H', 'D'} // the steps
	KindSplits = Kind{'S', 'E', 'G', 'M'} // methods in segments
	KindTensor = Kind{'T', 'N', 'S', 'R'} // the weight directory
	KindChange = Kind{'M', 'U', 'T', 'W'} // the weights that may be replaced
	KindChunks = Kind{'C', 'H', 'N', 'K'} // digests of the chunks of WGTS
	KindWeight = Kind{'W', 'G', 'T', 'S'} // the weights
)

// kindNames has the texts of the kinds that this version knows, so that checks need not make them.
var kindNames = func() map[Kind]string {
	names := map[Kind]string{}
	for _, i := range kinds {
		names[i.kind] = string(i.kind[:])
	}
	return names
}()

func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	for _, c := range k {
		if c < ' ' || c > '~' {
			return "0x" + hex.EncodeToString(k[:])
		}
	}
	return string(k[:])
}

// Flags of a section. A reader must refuse a file with an unknown critical section.
const (
	FlagCritical = 1 << iota // the file cannot be used without this section
	FlagRaw                  // not msgpack
	FlagChunked              // digested by chunks: the entry's SHA-256 is that of CHNK
	flagsKnown   = FlagCritical | FlagRaw | FlagChunked
)

// kindInfo states the requirements on a known section.
type kindInfo struct {
	kind  Kind
	flags uint32
	align int64
	there presence
}

// presence states when a section must exist.
type presence uint8

const (
	always      presence = iota
	sometimes            // a section that the file has only if it has contents
	withWeights          // these sections are all there or all missing: there if a weight has bytes
)

// kinds lists the sections in the order in which Write writes them.
var kinds = []kindInfo{
	{KindMeta, FlagCritical, SectionAlign, always},
	{KindGraph, FlagCritical, SectionAlign, always},
	{KindPlan, FlagCritical, SectionAlign, always},
	{KindSched, FlagCritical, SectionAlign, always},
	{KindSplits, FlagCritical, SectionAlign, sometimes},
	{KindTensor, FlagCritical, SectionAlign, sometimes},
	{KindChange, 0, SectionAlign, sometimes},
	{KindChunks, FlagCritical | FlagRaw, SectionAlign, withWeights},
	{KindWeight, FlagCritical | FlagRaw | FlagChunked, WeightsAlign, withWeights},
}

// alignFor returns the alignment with which Write writes a section of size bytes.
func (k kindInfo) alignFor(size int64) int64 {
	if k.kind == KindWeight && size >= HugeWeights {
		return HugeAlign
	}
	return k.align
}

// allows reports whether a section of this kind may have an alignment. Weights of any size may have either of theirs.
func (k kindInfo) allows(align uint32) bool {
	return int64(align) == k.align || k.kind == KindWeight && align == HugeAlign
}

// optionalKinds are known, do not affect runs, and are ignored.
var optionalKinds = []Kind{{'D', 'B', 'G', 'I'}, {'T', 'U', 'N', 'E'}}

func findKind(k Kind) (kindInfo, bool) {
	for _, i := range kinds {
		if i.kind == k {
			return i, true
		}
	}
	return kindInfo{}, false
}

// Section is one entry of the section table.
type Section struct {
	Kind         Kind
	Flags        uint32
	Offset, Size int64  // in bytes, from the start of the file
	Align        uint32 // of Offset
	Version      uint32 // of the section's schema
	Items        uint64 // number of items; see spec/format.md
	SHA256       [32]byte
}

func (s *Section) has(flag uint32) bool { return s.Flags&flag != 0 }

// header has the first 128 bytes, without the constant fields.
type header struct {
	minor        uint16
	fileSize     uint64
	sections     uint32
	required     uint64
	optional     uint64
	root         [32]byte
	major        uint16
	headerSize   uint32
	tableOffset  uint64
	entrySize    uint32
	reservedZero bool
	crc          uint32
}

// Offsets in the header.
const (
	offMajor       = 8
	offMinor       = 10
	offHeaderSize  = 12
	offFileSize    = 16
	offTableOffset = 24
	offSections    = 32
	offEntrySize   = 36
	offRequired    = 40
	offOptional    = 48
	offReserved    = 56
	offRoot        = 64
	offReserved2   = 96
	offCRC         = 124
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parseHeader splits 128 bytes that begin with the magic into fields. It checks nothing.
func parseHeader(b []byte) header {
	le := binary.LittleEndian
	h := header{
		major: le.Uint16(b[offMajor:]), minor: le.Uint16(b[offMinor:]), headerSize: le.Uint32(b[offHeaderSize:]),
		fileSize: le.Uint64(b[offFileSize:]), tableOffset: le.Uint64(b[offTableOffset:]),
		sections: le.Uint32(b[offSections:]), entrySize: le.Uint32(b[offEntrySize:]),
		required: le.Uint64(b[offRequired:]), optional: le.Uint64(b[offOptional:]),
		reservedZero: allZero(b[offReserved:offRoot]) && allZero(b[offReserved2:offCRC]),
		crc:          le.Uint32(b[offCRC:]),
	}
	copy(h.root[:], b[offRoot:])
	return h
}

// appendHeader returns the header of a file with the given table, including root and CRC.
func appendHeader(fileSize int64, table []byte) []byte {
	b := make([]byte, HeaderSize)
	le := binary.LittleEndian
	copy(b, magic)
	le.PutUint16(b[offMajor:], Major)
	le.PutUint16(b[offMinor:], Minor)
	le.PutUint32(b[offHeaderSize:], HeaderSize)
	le.PutUint64(b[offFileSize:], uint64(fileSize))
	le.PutUint64(b[offTableOffset:], HeaderSize)
	le.PutUint32(b[offSections:], uint32(len(table)/EntrySize))
	le.PutUint32(b[offEntrySize:], EntrySize)
	sealHeader(b, table)
	return b
}

// sealHeader sets root and CRC.
func sealHeader(b, table []byte) {
	root := rootOf(b, table)
	copy(b[offRoot:], root[:])
	binary.LittleEndian.PutUint32(b[offCRC:], crc32.Checksum(b[:offCRC], castagnoli))
}

// rootOf returns a digest that depends on every byte of the file: it hashes the first 64 bytes of the header, and the
// table, which has the sections' digests.
func rootOf(head, table []byte) (root [32]byte) {
	h := sha256.New()
	h.Write(head[:offRoot])
	h.Write(table)
	h.Sum(root[:0])
	return root
}

// Offsets in a section entry.
const (
	offFlags    = 4
	offOffset   = 8
	offSize     = 16
	offAlign    = 24
	offVersion  = 28
	offItems    = 32
	offEntryRes = 40
	offDigest   = 48
)

// rawEntry is a section entry as stored in the file.
type rawEntry struct {
	Section
	offset, size uint64
	reservedZero bool
}

func parseEntry(b []byte) rawEntry {
	le := binary.LittleEndian
	e := rawEntry{offset: le.Uint64(b[offOffset:]), size: le.Uint64(b[offSize:]),
		reservedZero: allZero(b[offEntryRes:offDigest])}
	copy(e.Kind[:], b)
	e.Flags = le.Uint32(b[offFlags:])
	e.Align, e.Version, e.Items = le.Uint32(b[offAlign:]), le.Uint32(b[offVersion:]), le.Uint64(b[offItems:])
	copy(e.SHA256[:], b[offDigest:])
	return e
}

func appendEntry(b []byte, s *Section) []byte {
	le := binary.LittleEndian
	b = append(b, s.Kind[:]...)
	b = le.AppendUint32(b, s.Flags)
	b = le.AppendUint64(b, uint64(s.Offset))
	b = le.AppendUint64(b, uint64(s.Size))
	b = le.AppendUint32(b, s.Align)
	b = le.AppendUint32(b, s.Version)
	b = le.AppendUint64(b, s.Items)
	b = le.AppendUint64(b, 0)
	return append(b, s.SHA256[:]...)
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// chunkCount returns the number of chunks of size bytes of weights.
func chunkCount(size int64) int64 {
	n := size / ChunkSize
	if size%ChunkSize != 0 {
		n++
	}
	return n
}
