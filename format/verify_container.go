package format

import (
	"bytes"
	"crypto/sha256"
	"hash/crc32"
	"io"
	"math"
	"slices"
)

// container is a file that has passed checks 1 to 12, except perhaps the digests of the weights' chunks.
type container struct {
	r        io.ReaderAt
	size     int64
	head     header
	sections []Section
	bytes    map[Kind][]byte // CHNK, and the msgpack sections until they are decoded

	structure int64 // total bytes of the msgpack sections
}

func (c *container) section(k Kind) (*Section, bool) {
	i := slices.IndexFunc(c.sections, func(s Section) bool { return s.Kind == k })
	if i < 0 {
		return nil, false
	}
	return &c.sections[i], true
}

// weights returns the byte range of WGTS. If the file has no such section, the size is 0.
func (c *container) weights() (offset, size int64) {
	if w, ok := c.section(KindWeight); ok {
		return w.Offset, w.Size
	}
	return 0, 0
}

const atHeader, atTable = "header", "section table"

// readContainer runs checks 2 to 12 except the digests of the weights' chunks. The file's size and the format's limits
// bound all allocations.
func readContainer(r io.ReaderAt, size int64, p Policy) (*container, error) {
	c := &container{r: r, size: size, bytes: map[Kind][]byte{}}
	if size > MaxFileSize {
		return nil, fail(1, "file", -1, "%d bytes; at most %d", size, int64(MaxFileSize))
	}
	head := make([]byte, min(size, HeaderSize))
	if err := readAt(r, head, 0); err != nil {
		return nil, fail(1, "file", 0, "cannot be read: %w", err)
	}
	if err := c.checkHeader(head); err != nil {
		return nil, err
	}
	table := make([]byte, int(c.head.sections)*EntrySize)
	if err := readAt(r, table, HeaderSize); err != nil {
		return nil, fail(6, atTable, 0, "cannot be read: %w", err)
	}
	if root := rootOf(head, table); root != c.head.root {
		return nil, fail(7, atHeader, offRoot, "the root digest is %x; the header and the table give %x", c.head.root,
			root)
	}
	if p.Root != nil && *p.Root != c.head.root {
		return nil, fail(7, atHeader, offRoot, "the root digest is %x; want %x", c.head.root, *p.Root)
	}
	for _, step := range []func([]byte) error{c.checkEntries, c.checkOrder, c.checkKinds, c.checkVersions} {
		if err := step(table); err != nil {
			return nil, err
		}
	}
	if need := StructureMemory(c.structure); p.MaxStructure > 0 && need > p.MaxStructure {
		return nil, fail(38, atTable, -1, "%d bytes of structure need up to %d bytes of memory; allowed are %d",
			c.structure, need, p.MaxStructure)
	}
	return c, c.checkDigests()
}

// checkHeader runs checks 2 to 6.
func (c *container) checkHeader(b []byte) error {
	if !bytes.HasPrefix(b, []byte(magic)) {
		return fail(2, atHeader, 0, "the file does not begin with the magic bytes of an .rlx artifact")
	}
	if len(b) < HeaderSize {
		return fail(2, atHeader, int64(len(b)), "the file has %d bytes; the header alone has %d", len(b), HeaderSize)
	}
	h := parseHeader(b)
	c.head = h
	switch {
	case h.major != Major:
		return fail(2, atHeader, offMajor, "format version %d.%d; this version reads %d.x", h.major, h.minor, Major)
	case h.headerSize != HeaderSize:
		return fail(2, atHeader, offHeaderSize, "header size is %d; want %d", h.headerSize, HeaderSize)
	case h.tableOffset != HeaderSize:
		return fail(2, atHeader, offTableOffset, "table offset is %d; want %d", h.tableOffset, HeaderSize)
	case h.entrySize != EntrySize:
		return fail(2, atHeader, offEntrySize, "entry size is %d; want %d", h.entrySize, EntrySize)
	case h.crc != crc32.Checksum(b[:offCRC], castagnoli):
		return fail(3, atHeader, offCRC, "the CRC-32C is %#08x; the bytes give %#08x", h.crc,
			crc32.Checksum(b[:offCRC], castagnoli))
	case !h.reservedZero:
		return fail(3, atHeader, offReserved, "a reserved byte is not zero")
	case h.fileSize != uint64(c.size):
		return fail(4, atHeader, offFileSize, "the header states %d bytes; the file has %d", h.fileSize, c.size)
	case h.required != 0:
		return fail(5, atHeader, offRequired, "required features are %#x; this version knows none", h.required)
	case h.sections < 1 || h.sections > MaxSections:
		return fail(6, atHeader, offSections, "%d sections; want 1 to %d", h.sections, MaxSections)
	case !within(HeaderSize, int64(h.sections)*EntrySize, c.size):
		return fail(6, atHeader, offSections, "a table of %d sections ends after the file", h.sections)
	}
	return nil
}

// checkEntries parses the table and runs the rest of check 3, and check 8.
func (c *container) checkEntries(table []byte) error {
	end := int64(HeaderSize + len(table))
	for i := range len(table) / EntrySize {
		at := int64(i * EntrySize)
		e := parseEntry(table[at:][:EntrySize])
		bad := func(check int, off int64, format string, args ...any) error {
			return fail(check, atTable, at+off, "section %d (%v): "+format, append([]any{i, e.Kind}, args...)...)
		}
		switch {
		case !e.reservedZero:
			return bad(3, offEntryRes, "a reserved byte is not zero")
		case e.Flags&^flagsKnown != 0:
			return bad(3, offFlags, "flags %#x are unknown", e.Flags&^flagsKnown)
		case e.Align != SectionAlign && e.Align != WeightsAlign && e.Align != HugeAlign:
			return bad(8, offAlign, "alignment %d; want %d, %d or %d", e.Align, SectionAlign, WeightsAlign, HugeAlign)
		case e.size == 0 || e.offset > math.MaxInt64 || e.size > math.MaxInt64 ||
			!within(int64(e.offset), int64(e.size), c.size):
			return bad(8, offOffset, "%d bytes at %d are empty or reach beyond the file's %d", e.size, e.offset, c.size)
		case e.offset%uint64(e.Align) != 0 || int64(e.offset) < end:
			return bad(8, offOffset, "offset %d is inside the table or no multiple of %d", e.offset, e.Align)
		}
		e.Offset, e.Size = int64(e.offset), int64(e.size)
		limit := int64(MaxSectionSize)
		switch e.Kind {
		case KindWeight:
			limit = MaxFileSize
		case KindChunks:
			limit = chunkCount(MaxFileSize) * digestSize
		}
		if e.Size > limit {
			return bad(8, offSize, "%d bytes; at most %d", e.Size, limit)
		}
		c.sections = append(c.sections, e.Section)
	}
	return nil
}

// checkOrder runs check 9.
func (c *container) checkOrder(table []byte) error {
	end := int64(HeaderSize + len(table))
	for i, s := range c.sections {
		bad := func(format string, args ...any) error {
			return fail(9, atTable, int64(i*EntrySize+offOffset), "section %d (%v): "+format,
				append([]any{i, s.Kind}, args...)...)
		}
		if s.Offset != alignUp(end, int64(s.Align)) {
			return bad("begins at %d; the one before it ends at %d, so it must begin at %d", s.Offset, end,
				alignUp(end, int64(s.Align)))
		}
		gap := make([]byte, s.Offset-end) // under HugeAlign
		if err := readAt(c.r, gap, end); err != nil {
			return bad("the padding before it cannot be read: %w", err)
		}
		if !allZero(gap) {
			return bad("the padding before it, from byte %d of the file, is not zero", end)
		}
		end = s.Offset + s.Size
	}
	if end != c.size {
		return fail(9, atTable, int64(len(table)-EntrySize+offSize),
			"the last section ends at %d; the file has %d bytes", end, c.size)
	}
	return nil
}

// checkKinds runs check 10.
func (c *container) checkKinds([]byte) error {
	have := map[Kind]bool{}
	for i, s := range c.sections {
		bad := func(format string, args ...any) error {
			return fail(10, atTable, int64(i*EntrySize), "section %d (%v): "+format,
				append([]any{i, s.Kind}, args...)...)
		}
		if have[s.Kind] {
			return bad("is listed twice")
		}
		have[s.Kind] = true
		info, known := findKind(s.Kind)
		switch {
		case known && (s.Flags != info.flags || !info.allows(s.Align)):
			return bad("flags %#x and alignment %d; want %#x and %d", s.Flags, s.Align, info.flags,
				info.alignFor(s.Size))
		case !known && s.has(FlagCritical):
			return bad("this version does not know this critical section")
		case !known && slices.Contains(optionalKinds, s.Kind) && s.has(FlagRaw):
			return bad("flags %#x; want 0", s.Flags)
		case !known && s.has(FlagChunked):
			return bad("only %v has chunks", KindWeight)
		case s.Kind == KindWeight && i != len(c.sections)-1:
			return bad("is not the last section")
		}
		if !s.has(FlagRaw) {
			if c.structure += s.Size; c.structure > MaxSectionsTotal {
				return bad("the msgpack sections have more than %d bytes together", MaxSectionsTotal)
			}
		}
	}
	for _, k := range kinds {
		if k.there == always && !have[k.kind] || k.there == withWeights && have[k.kind] != have[KindWeight] {
			return fail(10, atTable, 0, "section %v is missing", k.kind)
		}
	}
	return nil
}

// checkVersions runs check 11.
func (c *container) checkVersions([]byte) error {
	for i, s := range c.sections {
		_, known := findKind(s.Kind)
		if (known || s.has(FlagCritical)) && s.Version != Schema {
			return fail(11, atTable, int64(i*EntrySize+offVersion),
				"section %d (%v): schema version %d; this version knows %d", i, s.Kind, s.Version, Schema)
		}
	}
	return nil
}

// checkDigests reads the msgpack sections and CHNK into memory and runs check 12 on everything except the chunks
// themselves.
func (c *container) checkDigests() error {
	buf := make([]byte, readPiece)
	for _, s := range c.sections {
		var sum [32]byte
		var err error
		if _, known := findKind(s.Kind); known && s.Kind != KindWeight {
			b := make([]byte, s.Size)
			err = readAt(c.r, b, s.Offset)
			sum = sha256.Sum256(b)
			c.bytes[s.Kind] = b
		} else if known {
			sum = sha256.Sum256(c.bytes[KindChunks])
		} else {
			h := sha256.New()
			err = readPieces(c.r, s.Offset, s.Size, buf, h)
			h.Sum(sum[:0])
		}
		switch {
		case err != nil:
			return fail(12, s.Kind.String(), 0, "cannot be read: %w", err)
		case sum != s.SHA256:
			return fail(12, s.Kind.String(), 0, "the SHA-256 is %x; the section table states %x", sum, s.SHA256)
		}
	}
	w, ok := c.section(KindWeight)
	if !ok {
		return nil
	}
	k, _ := c.section(KindChunks)
	if n := chunkCount(w.Size); k.Size != n*digestSize {
		return fail(12, KindChunks.String(), 0, "%d bytes; %d chunks of weights have %d", k.Size, n, n*digestSize)
	}
	if n := uint64(chunkCount(w.Size)); k.Items != n || w.Items != 0 {
		return fail(checkSchema, atTable, -1, "%d items in %v and %d in %v; want %d and 0", k.Items, k.Kind, w.Items,
			w.Kind, n)
	}
	return nil
}

// checkWeights runs check 12 on the listed chunks of the weights.
func (c *container) checkWeights(list []int64) error {
	w, ok := c.section(KindWeight)
	if !ok {
		return nil
	}
	return chunkError(checkChunks(w.Size, list, digestTest(c.r, w.Offset, c.bytes[KindChunks])))
}

func chunkError(bad int64, err error) error {
	switch {
	case bad < 0:
		return nil
	case err != nil:
		return fail(12, KindWeight.String(), bad*ChunkSize, "chunk %d cannot be read: %w", bad, err)
	}
	return fail(12, KindWeight.String(), bad*ChunkSize, "the SHA-256 of chunk %d (of 4 MiB) differs from the one in %v",
		bad, KindChunks)
}
