package format

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"sync"
	"testing"
)

// forgery is an artifact in parts. Tests change the parts and file puts them together with correct digests, as an
// attacker would. It lays out the file independently of Write, from spec/format.md.
type forgery struct {
	c            *contents
	weights      []byte
	alignWeights uint32                    // of WGTS, if not 0
	body         func(Kind, []byte) []byte // changes a section before it is hashed
	extra        []Section                 // put before CHNK; filled with Size zero bytes
	table        func([]Section) []Section // changes the table before it is hashed
	raw          func([]byte) []byte       // changes the file before root and CRC are computed
	final        func([]byte) []byte       // changes the finished file
}

func forge(t testing.TB) *forgery {
	t.Helper()
	b := artifactBytes(t)
	forgeOnce.Do(func() {
		v, err := verifyBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		original = v
	})
	f := &forgery{c: decodeContents(original, b)}
	off, size := original.WeightsSection()
	f.weights = b[off:][:size]
	return f
}

var (
	forgeOnce sync.Once
	original  *Verified
)

// file puts the artifact together.
func (f *forgery) file() []byte {
	bodies := map[Kind][]byte{}
	var sections []Section
	add := func(k Kind, b []byte, items uint64) {
		if f.body != nil {
			b = f.body(k, b)
		}
		info, _ := findKind(k)
		bodies[k] = b
		sections = append(
			sections,
			Section{Kind: k, Flags: info.flags, Size: int64(len(b)), Align: uint32(info.alignFor(int64(len(b)))),
				Version: Schema,
				Items:   items, SHA256: sha256.Sum256(b)})
	}
	for _, k := range codecs {
		if k.kind == KindTensor && f.weights != nil || k.kind != KindTensor && k.written(f.c) {
			add(k.kind, k.bytes(f.c), uint64(k.items(f.c)))
		}
	}
	for _, s := range f.extra {
		bodies[s.Kind] = make([]byte, s.Size)
		s.SHA256 = sha256.Sum256(bodies[s.Kind])
		sections = append(sections, s)
	}
	if f.weights != nil {
		var chunks []byte
		for c := range slices.Chunk(f.weights, ChunkSize) {
			sum := sha256.Sum256(c)
			chunks = append(chunks, sum[:]...)
		}
		add(KindChunks, chunks, uint64(len(chunks)/32))
		add(KindWeight, f.weights, 0)
		sections[len(sections)-1].SHA256 = sections[len(sections)-2].SHA256
		if f.alignWeights != 0 {
			sections[len(sections)-1].Align = f.alignWeights
		}
	}
	out := make([]byte, HeaderSize+EntrySize*len(sections))
	for i := range sections {
		s := &sections[i]
		for len(out)%int(s.Align) != 0 {
			out = append(out, 0)
		}
		s.Offset = int64(len(out))
		out = append(out, bodies[s.Kind]...)
	}
	if f.table != nil {
		sections = f.table(sections)
	}
	table := []byte{}
	for i := range sections {
		table = appendEntry(table, &sections[i])
	}
	copy(out[HeaderSize:], table)
	copy(out, appendHeader(int64(len(out)), table))
	if f.raw != nil {
		out = f.raw(out)
		// The header may claim a larger table than there is. root covers what exists of it.
		n := min(int(parseHeader(out).sections)*EntrySize, len(out)-HeaderSize)
		sealHeader(out[:HeaderSize], out[HeaderSize:][:max(n, 0)])
	}
	if f.final != nil {
		out = f.final(out)
	}
	return out
}

func TestForgeryIsFaithful(t *testing.T) {
	if got, want := forge(t).file(), artifactBytes(t); !bytes.Equal(got, want) {
		t.Fatalf("the test's idea of the layout differs from Write's at byte %d", firstDifference(got, want))
	}
}
