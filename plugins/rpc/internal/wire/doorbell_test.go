//go:build linux

package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/internal/campaign"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// Where spec/protocol.md puts the words and the bytes of the backend's messages.
const (
	replyWord, backendWaits, hostWaits, requestWord = 256 / 8, 264 / 8, 200 / 8, 192 / 8
	requestBytes, replyBytes                        = 4096, 32768
)

// TestDoorbell exchanges messages of all sizes, also of sizes that do not fit, with and without pauses in which a side
// stops polling. Each must arrive once, in order and complete.
func TestDoorbell(t *testing.T) {
	for _, spin := range []time.Duration{0, 20 * time.Microsecond, time.Millisecond} {
		host, backend, _ := rpctest.DoorbellPair(t)
		sizes := []int{0, 1, 100, 28<<10 - 40, 28 << 10, 32<<10 - 40, 32 << 10, 100 << 10}
		pause := func(r *rand.Rand) {
			if r.IntN(8) == 0 {
				time.Sleep(time.Duration(r.IntN(100)) * time.Microsecond)
			}
		}
		ended := make(chan struct{})
		t.Cleanup(func() { // before the region is unmapped
			host.Close()
			<-ended
		})
		go func() {
			defer close(ended)
			for r := rand.New(rand.NewPCG(1, 2)); ; {
				backend.Spin(spin)
				h := &rlxv1.RunHeader{}
				if backend.Read(h) != nil {
					return
				}
				pause(r)
				d := &rlxv1.RunResult{Done: &rlxv1.Done{Generation: h.Generation}}
				if h.Generation%3 == 0 {
					st := status.New(codes.Aborted, strings.Repeat("s", sizes[r.IntN(len(sizes))])).Proto()
					d.Done = nil
					d.Status, _ = proto.Marshal(st)
				}
				if backend.Write(d) != nil {
					return
				}
			}
		}()
		r := rand.New(rand.NewPCG(3, 4))
		for i := int64(1); i <= 3000; i++ {
			h := &rlxv1.RunHeader{Generation: i,
				Syms: map[string]int64{strings.Repeat("s", sizes[r.IntN(len(sizes))]): i}}
			if err := host.Send(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			pause(r)
			done, err := host.Receive(t.Context(), spin)
			if i%3 == 0 && status.Code(err) != codes.Aborted || i%3 != 0 && (err != nil || done.Generation != i) {
				t.Fatalf("message %d: %v, %v", i, done, err)
			}
		}
	}
}

// TestDoorbellClosed checks that both sides notice when the other is gone, while they wait and while they poll: the
// kernel closes the socket of a process that has ended.
func TestDoorbellClosed(t *testing.T) {
	for _, spin := range []time.Duration{0, time.Hour} {
		host, backend, _ := rpctest.DoorbellPair(t)
		time.AfterFunc(10*time.Millisecond, backend.Close)
		if _, err := host.Receive(t.Context(), spin); status.Code(err) != codes.Unavailable {
			t.Errorf("the host, spinning %v: %v", spin, err)
		}
		host, backend, _ = rpctest.DoorbellPair(t)
		time.AfterFunc(10*time.Millisecond, host.Close)
		backend.Spin(spin)
		if err := backend.Read(&rlxv1.RunHeader{}); err != io.EOF {
			t.Errorf("the backend, spinning %v: %v", spin, err)
		}
		host, _, _ = rpctest.DoorbellPair(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := host.Receive(ctx, spin); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the host at its deadline, spinning %v: %v", spin, err)
		}
	}
}

// TestDoorbellLies checks how a host treats words without a meaning. A backend that claims to wait, or wakes the host
// without a message, must neither block the host nor make it read an old message.
func TestDoorbellLies(t *testing.T) {
	for _, word := range []int64{1 << 32, 1<<32 | 0xFFFFFFFF, -1, 1<<32 | 32<<10 + 1, 1 << 62} {
		host, _, region := rpctest.DoorbellPair(t)
		region.Store(replyWord, word)
		if _, err := host.Receive(t.Context(), time.Hour); status.Code(err) != codes.Internal {
			t.Errorf("the word %#x: %v", word, err)
		}
	}
	host, backend, region := rpctest.DoorbellPair(t)
	region.Store(backendWaits, -1)
	for i := range int64(4000) { // more empty messages than the socket holds
		if err := host.Send(t.Context(), &rlxv1.RunHeader{Generation: i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3000 { // the host has not said that it waits
		go backend.Conn.Write(make([]byte, 4))
	}
	h := &rlxv1.RunHeader{}
	if err := backend.Read(h); err != nil || h.Generation != 4000 {
		t.Fatal(h, err)
	}
	time.AfterFunc(10*time.Millisecond, func() {
		if err := backend.Write(&rlxv1.RunResult{Done: &rlxv1.Done{Generation: 9}}); err != nil {
			t.Error(err)
		}
	})
	if d, err := host.Receive(t.Context(), 0); err != nil || d.Generation != 9 {
		t.Fatal(d, err)
	}
	// the host has copied what it read, so later changes of the bytes do not matter
	copy(region.Header[replyBytes:], bytes.Repeat([]byte{0xFF}, 100))
	if region.Load(hostWaits) != 0 {
		t.Error("the host says that it waits, but it does not")
	}
}

// FuzzDoorbell gives both sides arbitrary words and bytes in the region. A side returns a message or an error.
func FuzzDoorbell(t *testing.F) {
	f := campaign.New(t)
	add := func(word int64, m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(word|int64(len(b)), int64(0), b)
	}
	st, _ := proto.Marshal(status.New(codes.Internal, "no").Proto())
	add(1<<32, &rlxv1.RunResult{Done: &rlxv1.Done{Generation: 1}})
	add(9<<32, &rlxv1.RunResult{Status: st})
	add(1<<32, &rlxv1.RunHeader{Executable: 1, Generation: 1, Syms: map[string]int64{"N": 1}})
	f.Add(int64(-1), int64(1), []byte{1})
	f.Add(int64(1<<32|40), int64(-1), binary.LittleEndian.AppendUint64(nil, 1<<63))
	f.Fuzz(func(t testing.TB, word, waits int64, b []byte) {
		host, backend, region := rpctest.DoorbellPair(t)
		if word == 0 {
			return // no message
		}
		b = b[:min(len(b), 28<<10)]
		copy(region.Header[replyBytes:], b)
		copy(region.Header[requestBytes:], b)
		for _, w := range []int{replyWord, requestWord} {
			region.Store(w, word)
		}
		region.Store(backendWaits, waits)
		done, err := host.Receive(t.Context(), 0)
		if _, ok := status.FromError(err); !ok || (done == nil) == (err == nil) || err != nil &&
			status.Code(err) == codes.OK {
			t.Fatalf("%v, %v", done, err)
		}
		h := &rlxv1.RunHeader{}
		if err := backend.Read(h); err == nil && int(uint32(word)) > 28<<10 {
			t.Fatalf("a message of %d bytes was read", uint32(word))
		}
		if err := host.Send(t.Context(), &rlxv1.RunHeader{Generation: 1}); err != nil {
			t.Fatal(err)
		}
	})
}
