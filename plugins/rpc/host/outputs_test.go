package host

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// TestEarly takes outputs while a backend announces them: parts, whole ones, and announcements that are wrong. What was
// taken is cleared, and what was not is taken at the end.
func TestEarly(t *testing.T) {
	sizes := []int64{3<<20 + 17, 5 << 20, 2 << 20, 100, 2 << 20, 2 << 20}
	wants := []bool{true, true, true, true, false, true}
	b := &wire.Binding{Aliased: make([]bool, len(sizes))}
	at := int64(0)
	for _, n := range sizes {
		b.Outputs = append(b.Outputs, &rlxv1.Range{Offset: at, Size: n})
		at += (n + 63) &^ 63
	}
	b.Aliased[5] = true
	region, err := wire.NewRegion()
	if err != nil {
		t.Fatal(err)
	}
	defer region.Close()
	if err := region.Grow(at); err != nil {
		t.Fatal(err)
	}
	rand.NewChaCha8([32]byte{1}).Read(region.Data)
	want := bytes.Clone(region.Data)
	e := &Executable{session: &Session{region: region}, announces: true}
	x := &hostRun{e: e, bound: b, header: &rlxv1.RunHeader{Generation: 3}, r: device.Run{Outputs: wants}, early: true}
	for i, n := range sizes {
		x.out = append(x.out, nil)
		if wants[i] {
			x.out[i] = bytes.Repeat([]byte{0xaa}, int(n))
		}
	}
	cleared := func(i int, n int64) bool {
		from := b.Outputs[i].Offset
		return bytes.Equal(region.Data[from:from+n], make([]byte, n))
	}
	end := x.takeEarly()
	region.Store(wire.WordReady, sizes[0]) // of the run before
	time.Sleep(5 * time.Millisecond)
	if cleared(0, sizes[0]) {
		t.Error("an announcement of another run counts")
	}
	region.Store(wire.WordReady, 0)
	region.Store(wire.WordReady+4, sizes[4]) // not wanted
	region.Store(wire.WordReady+5, sizes[5]) // shares bytes with another
	region.Store(wire.WordReady+2, -1)
	region.Store(wire.WordGeneration, 3)
	region.Store(wire.WordReady+1, 2<<20)
	region.Store(wire.WordReady+3, 1<<40)
	until := time.Now().Add(time.Minute)
	for !cleared(1, 2<<20) || !cleared(3, 100) {
		if time.Now().After(until) {
			t.Fatal("what was announced is not taken")
		}
		time.Sleep(time.Millisecond)
	}
	end()
	if cleared(2, sizes[2]) || cleared(4, sizes[4]) || cleared(5, sizes[5]) || cleared(1, 3<<20) {
		t.Error("more was taken than was announced")
	}
	x.readShared()
	for i, o := range b.Outputs {
		if wants[i] && !bytes.Equal(x.out[i], want[o.Offset:o.Offset+o.Size]) {
			t.Errorf("output %d has other bytes than the region had", i)
		}
		if wants[i] && !b.Aliased[i] != cleared(i, o.Size) {
			t.Errorf("output %d: cleared for the next run: %v", i, cleared(i, o.Size))
		}
	}
	if !e.announces {
		t.Error("the backend counts as one that announces nothing")
	}
	for i := range sizes {
		region.Store(wire.WordReady+i, 0)
	}
	if x.readShared(); e.announces {
		t.Error("the backend counts as one that announces outputs")
	}
}
