package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
)

// repair recomputes all digests of a file, like somebody who damages it on purpose: those of the chunks, of the
// sections, the root and the CRC. It leaves out parts that the table does not describe sensibly.
func repair(b []byte) {
	n := int(min(parseHeader(b).sections, 64))
	table := b[HeaderSize:]
	table = table[:min(len(table), n*EntrySize)]
	body := map[Kind][]byte{}
	each := func(do func(e []byte, k Kind)) {
		for e := table; len(e) >= EntrySize; e = e[EntrySize:] {
			do(e, Kind(e[:4]))
		}
	}
	each(func(e []byte, k Kind) {
		off, size := binary.LittleEndian.Uint64(e[offOffset:]), binary.LittleEndian.Uint64(e[offSize:])
		if all := uint64(len(b)); off <= all && size <= all-off {
			body[k] = b[off:][:size]
		}
	})
	for i := 0; i*ChunkSize < len(body[KindWeight]) && (i+1)*32 <= len(body[KindChunks]); i++ {
		chunk := body[KindWeight][i*ChunkSize:]
		sum := sha256.Sum256(chunk[:min(len(chunk), ChunkSize)])
		copy(body[KindChunks][i*32:], sum[:])
	}
	each(func(e []byte, k Kind) {
		if k == KindWeight {
			k = KindChunks
		}
		if body[k] != nil {
			sum := sha256.Sum256(body[k])
			copy(e[offDigest:], sum[:])
		}
	})
	sealHeader(b[:HeaderSize], table)
}

// TestRepairedFlips flips bits of an artifact and repairs the digests. The file must be refused with a typed error, or
// be safe to run as TestAgreesWithPlanner and FuzzVerify define it. It tries a part of the bits, or with RLX_FLIPS=all
// every bit that is not padding:
//
//	RLX_FLIPS=all go test -timeout 1h -v -run RepairedFlips ./format
func TestRepairedFlips(t *testing.T) {
	whole := artifactBytes(t)
	sound := bytes.Clone(whole)
	repair(sound)
	if !bytes.Equal(sound, whole) {
		t.Fatal("the test's idea of the digests differs from Write's")
	}
	v, err := verifyBytes(whole)
	if err != nil {
		t.Fatal(err)
	}
	step := 97
	if os.Getenv("RLX_FLIPS") == "all" {
		step = 1
	}
	type area struct {
		name     string
		from, to int
	}
	areas := []area{{"header and table", 0, HeaderSize + EntrySize*len(v.Sections())}}
	for _, s := range v.Sections() {
		areas = append(areas, area{s.Kind.String(), int(s.Offset), int(s.Offset + s.Size)})
	}
	at := 0
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("bit %d of byte %d", at%8, at/8)
		}
	})
	for _, a := range areas {
		tried, same, accepted := 0, 0, 0
		for bit := 8 * a.from; bit < 8*a.to; bit += step {
			b := bytes.Clone(whole)
			b[bit/8] ^= 1 << (bit % 8)
			repair(b)
			tried++
			at = bit
			if bytes.Equal(b, whole) {
				same++ // the bit was part of a digest
				continue
			}
			v, err := verifyBytes(b)
			switch {
			case err == nil:
				accepted++
				checkAccepted(t, v.All())
				for _, s := range v.Splits() {
					m, _ := v.meta.Method(s.Method)
					checkSplit(t, m, s)
				}
			case diag.ExitCode(err) != 4:
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d bits, %d of them in digests, %d accepted", a.name, tried, same, accepted)
	}
}
