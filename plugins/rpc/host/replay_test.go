//go:build linux

package host

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

func init() { rpctest.Modes["replay"] = playTranscript }

// rawCodec passes the bytes of messages on.
type rawCodec struct{}

func (rawCodec) Name() string                       { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }

// player plays one side of a transcript. Calls come one after another, so one position suffices.
type player struct {
	mu   sync.Mutex
	list []record
	at   int
	io   *os.File // the region, which is accessed only by pread and pwrite; nil for none

	weights *os.File // the memory of new weights, for a backend; nil for none
}

// next returns the records of the next call: what the host does, then what the backend does.
func (p *player) next() (host, backend []record) {
	sent := func(r record) bool {
		return r.mark == markHost || r.mark == markHostMem || r.mark == markFile || r.mark == markWeights
	}
	for ; p.at < len(p.list) && sent(p.list[p.at]); p.at++ {
		host = append(host, p.list[p.at])
	}
	for ; p.at < len(p.list) && !sent(p.list[p.at]); p.at++ {
		backend = append(backend, p.list[p.at])
	}
	return host, backend
}

// check checks that the region, or the memory of new weights, has the bytes of a record.
func (p *player) check(r record) error {
	at, err := strconv.ParseInt(r.name, 10, 64)
	have, from := make([]byte, len(r.data)), p.io
	if r.mark == markWeights {
		from = p.weights
	}
	if err == nil {
		_, err = from.ReadAt(have, at)
	}
	if err != nil || !bytes.Equal(have, r.data) {
		return fmt.Errorf("bytes at %s of the memory are % x, %w; want % x", r.name, have, err, r.data)
	}
	return nil
}

// write writes the bytes of a record to the region.
func (p *player) write(r record) error {
	at, err := strconv.ParseInt(r.name, 10, 64)
	if err == nil {
		_, err = p.io.WriteAt(r.data, at)
	}
	return err
}

// answer plays the backend in one call.
func (p *player) answer(call string, receive func() ([]byte, error), send func([]byte) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	host, backend := p.next()
	for _, r := range host {
		switch r.mark {
		case markHost:
			b, err := receive()
			if err != nil {
				return fmt.Errorf("%s: %w; want a message", r.name, err)
			}
			if r.call() != call || !bytes.Equal(b, r.data) {
				return fmt.Errorf("%s with % x; want %s with % x", call, b, r.name, r.data)
			}
		case markHostMem, markWeights:
			if err := p.check(r); err != nil {
				return err
			}
		}
	}
	for _, r := range backend {
		var err error
		switch r.mark {
		case markBackend:
			err = send(r.data)
		case markBackMem:
			err = p.write(r)
		case markFailed:
			st := &spb.Status{}
			if err = proto.Unmarshal(r.data, st); err == nil {
				return status.ErrorProto(st)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readTranscript(file string, shared bool) ([]record, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	part := "chunks"
	if shared {
		part = "shared memory"
	}
	return parseRecords(string(text), part)
}

// playTranscript is a backend that knows nothing but the transcript.
func playTranscript() {
	fds, err := wire.InheritedFiles(os.Getenv(wire.FilesEnv))
	if err != nil {
		panic(err)
	}
	p := &player{io: fds.IO, weights: fds.Weights}
	if p.list, err = readTranscript(os.Getenv("RLX_TEST_TRANSCRIPT"), fds.IO != nil); err != nil {
		panic(err)
	}
	if fds.Runs != nil {
		go p.serveRuns(fds.Runs)
	}
	id, err := newHostIdentity() // as good a certificate as any
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	secure := credentials.NewTLS(
		&tls.Config{Certificates: []tls.Certificate{id.cert}, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: pool})
	server := grpc.NewServer(grpc.Creds(secure), grpc.ForceServerCodec(rawCodec{}),
		grpc.UnknownServiceHandler(func(_ any, st grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(st)
			if method == wire.ShutdownMethod {
				os.Exit(0)
			}
			if method == wire.StdioMethod {
				return status.Error(codes.Unimplemented, "no stdio")
			}
			err := p.answer(path.Base(method), func() (b []byte, err error) {
				err = st.RecvMsg(&b)
				return b, err
			}, func(b []byte) error { return st.SendMsg(&b) })
			if _, ok := status.FromError(err); !ok {
				fmt.Fprintln(os.Stderr, err)
			}
			return err
		}))
	l, err := net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s"))
	if err != nil {
		panic(err)
	}
	fmt.Printf("1|2|unix|%s|grpc|%s\n", l.Addr(), base64.RawStdEncoding.EncodeToString(id.cert.Certificate[0]))
	server.Serve(l)
}

func readRaw(f io.Reader) ([]byte, error) {
	var n uint32
	if err := binary.Read(f, binary.LittleEndian, &n); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err := io.ReadFull(f, b)
	return b, err
}

func writeRaw(f io.Writer, b []byte) error {
	_, err := f.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

func (p *player) serveRuns(f *os.File) {
	for {
		b, err := readRaw(f)
		if err != nil {
			return
		}
		err = p.answer("runs", func() ([]byte, error) { return b, nil }, func(b []byte) error { return writeRaw(f, b) })
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			f.Close()
			return
		}
	}
}

// TestReplayBackend plays the backend of the transcript at a real host, which must get the right results. Each message
// of the host must be that of the transcript.
func TestReplayBackend(t *testing.T) {
	for _, chunks := range []bool{false, true} {
		playDemo(t, start(t, demoOptions(t, "replay", chunks)))
	}
}

// TestReplayHost plays the host of the transcript at a real backend and compares the answers.
func TestReplayHost(t *testing.T) {
	for _, chunks := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunks=%v", chunks), func(t *testing.T) {
			list, err := readTranscript(transcriptPath, !chunks)
			if err != nil {
				t.Fatal(err)
			}
			s := start(t, demoOptions(t, "demo", chunks))
			if err := s.sizeRegion(demoProgram(t)); err != nil {
				t.Fatal(err)
			}
			p := &player{list: list}
			if !chunks {
				p.io = s.region.File
			}
			calls := 0
			for p.at < len(p.list) {
				host, backend := p.next()
				if err := p.ask(t.Context(), s, host, backend); err != nil {
					t.Fatalf("call %d: %v", calls, err)
				}
				calls++
			}
			if calls < 11 {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

// ask plays the host in one call.
func (p *player) ask(ctx context.Context, s *Session, host, backend []record) error {
	var messages []record
	for _, r := range host {
		switch r.mark {
		case markHost:
			messages = append(messages, r)
		case markHostMem:
			if err := p.write(r); err != nil {
				return err
			}
		case markWeights: // those of all params
			if s.newWeights.Data == nil {
				if err := s.newWeights.Grow(int64(len(r.data))); err != nil {
					return err
				}
			}
			copy(s.newWeights.Data, r.data)
		}
	}
	call := messages[0].call()
	ctx, cancel := context.WithTimeout(ctx, rpctest.HangGuard)
	defer cancel()
	var receive func() ([]byte, error)
	if call == "runs" {
		if err := writeRaw(s.direct.Conn, messages[0].data); err != nil {
			return err
		}
		receive = func() ([]byte, error) { return readRaw(s.direct.In) }
	} else {
		st, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			wire.ServiceMethods+call, grpc.ForceCodec(rawCodec{}))
		if err != nil {
			return err
		}
		for _, r := range messages {
			if err := st.SendMsg(&r.data); err != nil {
				break // RecvMsg returns the reason
			}
		}
		st.CloseSend()
		receive = func() (b []byte, err error) {
			err = st.RecvMsg(&b)
			return b, err
		}
	}
	var last []byte // a progress message that may be repeated
	for _, r := range backend {
		switch r.mark {
		case markBackMem:
			continue // checked below, because the messages follow
		case markFailed:
			_, err := receive()
			for err == nil { // progress
				_, err = receive()
			}
			st, _ := status.FromError(err)
			if got := encoded(st.Proto()); !bytes.Equal(got, r.data) {
				return fmt.Errorf("%s: %w; want % x", r.name, err, r.data)
			}
			continue
		}
		for {
			b, err := receive()
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			if b, err = stableBytes(r.name, b); err != nil {
				return err
			}
			if bytes.Equal(b, r.data) {
				last = b
				break
			}
			if !bytes.HasPrefix(b, []byte{0x0a}) || call != "Run" { // field 1 of RunReply is progress
				return fmt.Errorf("%s is % x (after % x); want % x", r.name, b, last, r.data)
			}
		}
	}
	// The call is over when its status arrives; before that, the backend may refuse the next one.
	if failed := slices.ContainsFunc(backend, func(r record) bool { return r.mark == markFailed }); call != "runs" &&
		!failed {
		if b, err := receive(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: % x, %w; want the end of the call", call, b, err)
		}
	}
	for _, r := range backend {
		if r.mark == markBackMem {
			if err := p.check(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// stableBytes applies stable to an encoded message.
func stableBytes(name string, b []byte) ([]byte, error) {
	_, kind, _ := bytes.Cut([]byte(name), []byte(" "))
	t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("rlx.v1." + string(kind)))
	if err != nil {
		return nil, err
	}
	m := t.New().Interface()
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, errors.Join(errors.New(name), err)
	}
	return encoded(stable(m)), nil
}
