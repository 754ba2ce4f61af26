//go:build linux || darwin || windows

package wire

import (
	"fmt"
	"sync/atomic"
)

// The doorbell carries the messages of a run channel without a system call. It consists of words and bytes in the
// region's header. Each side writes a message into its bytes, and then its word: the high half is the number of the
// message, the low half its length. The other side polls that word. Before a side stops polling, it sets its waiting
// word and then reads from the socket. A writer that finds the waiting word set sends an empty message over the socket.
//
// The other process may write anything at any time. So a length is loaded once and then checked, and the bytes are
// copied before they are parsed.
const (
	wordRequest      = 192 / 8 // the host's last message
	wordHostWaits    = 200 / 8 // 1 while the host waits for the socket
	wordReply        = 256 / 8 // the backend's last message
	wordBackendWaits = 264 / 8 // 1 while the backend waits for the socket
	wordDoorbell     = 272 / 8 // 1 if the backend takes messages in this way

	requestAt = 4 << 10 // the bytes of the host's message, up to the backend's
	replyAt   = 32 << 10
)

// doorbell is one side's view of the doorbell.
type doorbell struct {
	own, far side
	seen     int64 // the last word of the far side that was taken
	sent     int64 // number of own messages
}

// side is the part of the header that one side writes.
type side struct {
	word, waits *int64
	bytes       []byte
}

// HasDoorbell reports whether the backend takes messages by the doorbell.
func (r *Region) HasDoorbell() bool { return r.Load(wordDoorbell) == 1 }

// UseDoorbell makes the host's end use the doorbell of r, which must stay mapped as long as the channel is used.
func (c *RunChannel) UseDoorbell(r *Region) { c.bell = newDoorbell(r, r.hostSide(), r.backendSide()) }

// ServeDoorbell makes the backend's end serve the doorbell of r, and tells the host.
func (c *RunChannel) ServeDoorbell(r *Region) {
	c.bell, c.answers = newDoorbell(r, r.backendSide(), r.hostSide()), true
	r.Store(wordDoorbell, 1)
}

func newDoorbell(r *Region, own, far side) *doorbell {
	return &doorbell{own: own, far: far, seen: atomic.LoadInt64(far.word)}
}

func (r *Region) hostSide() side {
	return side{&r.words[wordRequest], &r.words[wordHostWaits], r.Header[requestAt:replyAt:replyAt]}
}

func (r *Region) backendSide() side {
	return side{&r.words[wordReply], &r.words[wordBackendWaits], r.Header[replyAt:RegionHeader:RegionHeader]}
}

// fits reports whether a message of n bytes can go by the doorbell. It cannot for a nil doorbell.
func (d *doorbell) fits(n int) bool { return d != nil && n > 0 && n <= len(d.own.bytes) }

// ring sends a message that fits. It reports whether the far side waits for the socket.
func (d *doorbell) ring(m []byte) (waits bool) {
	copy(d.own.bytes, m)
	d.sent++
	atomic.StoreInt64(d.own.word, d.sent<<32|int64(len(m)))
	return atomic.LoadInt64(d.far.waits) != 0
}

// rung reports whether there is a message that was not taken.
func (d *doorbell) rung() bool { return d != nil && atomic.LoadInt64(d.far.word) != d.seen }

// take appends the message to buf. It must have been rung for.
func (d *doorbell) take(buf []byte) ([]byte, error) {
	word := atomic.LoadInt64(d.far.word)
	d.seen = word
	n := uint32(word)
	if n == 0 || int64(n) > int64(len(d.far.bytes)) {
		return nil, fmt.Errorf("%w: it has %d bytes in the shared region; 1 to %d are allowed", errMessage, n,
			len(d.far.bytes))
	}
	return append(buf, d.far.bytes[:n]...), nil
}

// wait says whether this side waits for the socket.
func (d *doorbell) wait(waits int64) {
	if d != nil {
		atomic.StoreInt64(d.own.waits, waits)
	}
}
