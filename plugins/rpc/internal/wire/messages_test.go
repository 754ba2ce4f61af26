//go:build linux || darwin || windows

package wire

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// TestMessages encodes and decodes random messages of runs and compares with package proto. A decoder reuses the
// message before.
func TestMessages(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	kept := &rlxv1.RunHeader{}
	for i := range 3000 {
		var m proto.Message
		var fresh, reused proto.Message = &rlxv1.RunHeader{}, kept
		m = randomHeader(r)
		if i%2 == 1 {
			m, fresh, reused = randomResult(r), &rlxv1.RunResult{}, &rlxv1.RunResult{}
		}
		b, err := marshal([]byte{1, 2}, m)
		if err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(b[2:], fresh); err != nil || !proto.Equal(m, fresh) {
			t.Fatalf("%v was encoded as % x, which is %v, %v", m, b[2:], fresh, err)
		}
		theirs, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{b[2:], theirs, append(theirs, theirs...)} {
			compareDecoded(t, b, reused)
		}
		for range 3 { // bytes that are often no message
			damaged := append([]byte{}, theirs...)
			for range r.IntN(3) + 1 {
				if len(damaged) > 0 {
					damaged[r.IntN(len(damaged))] = byte(r.Uint32() >> r.IntN(9))
				}
			}
			compareDecoded(t, damaged[:len(damaged)-r.IntN(1+len(damaged)/8)], reused)
		}
	}
}

// compareDecoded decodes b with and without package proto.
func compareDecoded(t *testing.T, b []byte, m proto.Message) {
	t.Helper()
	want := m.ProtoReflect().New().Interface()
	wantErr := proto.Unmarshal(b, want)
	err := unmarshal(b, m)
	if (err == nil) != (wantErr == nil) || err == nil && !proto.Equal(m, want) {
		t.Fatalf("% x: %v, %v; want %v, %v", b, m, err, want, wantErr)
	}
}

// anyNumber returns 0 or a number of any length.
func anyNumber(r *rand.Rand) int64 {
	v := int64(r.Uint64() >> r.IntN(64))
	return [...]int64{0, v, -v, math.MinInt64, 1, 127, 128}[r.IntN(7)]
}

func randomHeader(r *rand.Rand) *rlxv1.RunHeader {
	ranges := func() (out []*rlxv1.Range) {
		for range r.IntN(4) {
			out = append(out, &rlxv1.Range{Offset: anyNumber(r), Size: anyNumber(r)})
		}
		return out
	}
	h := &rlxv1.RunHeader{Executable: uint64(anyNumber(r)), Generation: anyNumber(r), Inputs: ranges(),
		Outputs: ranges(), Profile: r.IntN(2) == 0, CheckNan: r.IntN(2) == 0, State: uint64(anyNumber(r))}
	for k := range r.IntN(2) * r.IntN(12) {
		if h.Syms == nil {
			h.Syms = map[string]int64{}
		}
		h.Syms[fmt.Sprint("größe", k)] = int64(r.IntN(2))
	}
	if r.IntN(4) == 0 {
		h.Dump, h.Unwanted = []int32{3, -1}, []int32{4}
		h.Feeds = []*rlxv1.Transfer{{Tensor: 1, State: 2, Offset: 3}}
	}
	if r.IntN(8) == 0 {
		h.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 7))
	}
	return h
}

func randomResult(r *rand.Rand) *rlxv1.RunResult {
	if r.IntN(4) == 0 {
		return &rlxv1.RunResult{Status: []byte("status")}
	}
	return &rlxv1.RunResult{Done: &rlxv1.Done{Generation: anyNumber(r), TotalNs: anyNumber(r), PeakRss: anyNumber(r),
		FirstNan: anyNumber(r), Steps: int32(anyNumber(r)), DeviceClock: r.IntN(2) == 0, DeviceMemory: anyNumber(r)}}
}

// TestSymsTwice checks that a header that names a symbol twice does not get the symbols of the one before.
func TestSymsTwice(t *testing.T) {
	h := &rlxv1.RunHeader{}
	b, _ := marshal(nil, &rlxv1.RunHeader{Syms: map[string]int64{"a": 1, "b": 2}})
	compareDecoded(t, b, h)
	one, _ := marshal(nil, &rlxv1.RunHeader{Syms: map[string]int64{"a": 1}})
	compareDecoded(t, append(one, one...), h)
}

// BenchmarkMessages encodes and decodes the request for a run, by these functions and by package proto.
func BenchmarkMessages(b *testing.B) {
	h := &rlxv1.RunHeader{Executable: 1, Generation: 100, Inputs: []*rlxv1.Range{{Size: 100}},
		Outputs: []*rlxv1.Range{{Offset: 128, Size: 100}}, Syms: map[string]int64{"batch": 2}}
	got := &rlxv1.RunHeader{}
	var buf []byte
	b.Run("own", func(b *testing.B) {
		for b.Loop() {
			buf, _ = marshal(buf[:0], h)
			if unmarshal(buf, got) != nil {
				b.Fatal()
			}
		}
	})
	b.Run("proto", func(b *testing.B) {
		for b.Loop() {
			buf, _ = proto.MarshalOptions{}.MarshalAppend(buf[:0], h)
			if proto.Unmarshal(buf, got) != nil {
				b.Fatal()
			}
		}
	})
}
