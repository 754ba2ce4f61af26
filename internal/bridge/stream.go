//go:build unix

package bridge

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// A stream sends and receives frames.
type stream struct {
	conn *net.UnixConn
	in   *bufio.Reader
	// files holds descriptors that were received and that no request has taken yet, in their order
	files []int

	mu  sync.Mutex // of out
	out []byte
}

func newStream(conn *net.UnixConn) *stream {
	s := &stream{conn: conn}
	s.in = bufio.NewReaderSize(readerFunc(s.read), 1<<16)
	return s
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// read reads bytes and the descriptors that come with them.
func (s *stream) read(b []byte) (int, error) {
	control := make([]byte, unix.CmsgSpace(4*8))
	n, size, _, _, err := s.conn.ReadMsgUnix(b, control)
	if errors.Is(err, io.EOF) { // wrapped, which io.ReadFull does not expect
		return 0, io.EOF
	}
	if err != nil {
		return n, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:size])
	if err != nil {
		return n, err
	}
	for i := range messages {
		files, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return n, err
		}
		s.files = append(s.files, files...)
	}
	return n, nil
}

// headSize is the number of bytes of a request before its object: two lengths, the id and the name of the call.
const headSize = 4 + 4 + 8 + 16

// receive returns the next request. The error is io.EOF if the other side has closed the socket between two frames.
func (s *stream) receive() (*request, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return nil, err
	}
	object, payload := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if object > maxObject || payload > InlineMax {
		return nil, fmt.Errorf("bridge: a frame has %d bytes of JSON and %d of payload; allowed are %d and %d",
			object, payload, maxObject, InlineMax)
	}
	body := make([]byte, int(object)+int(payload))
	if _, err := io.ReadFull(s.in, body); err != nil {
		return nil, fmt.Errorf("bridge: a frame ends early: %v", err)
	}
	r := &request{ID: int64(binary.LittleEndian.Uint64(head[8:])), Call: string(bytes.TrimRight(head[16:], "\x00")),
		Args: body[:object], payload: body[object:], file: -1}
	if r.Call == "region" && len(s.files) > 0 {
		r.file, s.files = s.files[0], s.files[1:]
	}
	return r, nil
}

// send sends a frame. It may be called concurrently.
func (s *stream) send(r response, payload []byte) error {
	object, err := json.Marshal(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = binary.LittleEndian.AppendUint32(s.out[:0], uint32(len(object)))
	s.out = binary.LittleEndian.AppendUint32(s.out, uint32(len(payload)))
	s.out = append(append(s.out, object...), payload...)
	_, err = s.conn.Write(s.out)
	return err
}
