//go:build linux || darwin

package rpctest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/rpc/internal/server"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
	"github.com/rlx-go/rlx/plugins/rpc/serve"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// ModeEnv is an environment variable. If it is set, the test binary plays a backend instead of running tests. Its value
// is a mode for play.
const ModeEnv = "RLX_TEST_BACKEND"

// Main runs the tests of a package, or plays a backend if a test started this process as one. TestMain calls it.
func Main(m *testing.M) {
	if mode := os.Getenv(ModeEnv); mode != "" {
		Play(mode)
		return
	}
	flag.Set("test.parallel", "8") // most of these tests only wait; -parallel on the command line overrides this
	os.Exit(m.Run())
}

// Play plays a backend that misbehaves. mode is ACTION@POINT for a backend that misbehaves at one point of the
// protocol, or the name of a program that never serves.
func Play(mode string) {
	switch mode {
	case "good":
		serve.Backend(
			serve.Config{Name: "ref", Backend: Reference{}, Decode: Decode, Log: serve.NewLogger(slog.LevelDebug)})
	case "demo":
		serve.Backend(serve.Config{Name: "demo", Backend: demoBackend{}, Decode: format.DecodeProgram})
	case "slow": // like an interpreter that loads large modules
		time.Sleep(300 * time.Millisecond)
		Play("good")
	case "exit0":
	case "exit3":
		fmt.Fprintln(os.Stderr, "error while loading shared libraries: libvulkan.so.1")
		os.Exit(3)
	case "traceback":
		for i := range 12 {
			fmt.Fprintln(os.Stderr, "line", i)
		}
		os.Exit(1)
	case "no-newline":
		fmt.Fprintln(os.Stderr, "loading")
		fmt.Print("1|2|unix")
		time.Sleep(time.Hour)
	case "rubbish":
		fmt.Println("hello \x1b[31mworld")
		time.Sleep(time.Hour)
	case "endless-line":
		for {
			os.Stdout.Write(make([]byte, 1<<16))
		}
	case "closed-stdout":
		os.Stdout.Close()
		time.Sleep(time.Hour)
	case "hang":
		time.Sleep(time.Hour)
	case "hang-group": // has a child that ignores SIGTERM and must be ended, too
		signal.Ignore(syscall.SIGTERM)
		p, err := os.StartProcess("/proc/self/exe", os.Args,
			&os.ProcAttr{Env: []string{ModeEnv + "=hang"}, Files: []*os.File{nil, os.Stdout, os.Stderr}})
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "child", p.Pid)
		time.Sleep(time.Hour)
	case "version9":
		fmt.Printf("1|9|unix|%s|grpc|%s\n", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s"), "x")
		time.Sleep(time.Hour)
	case "tcp", "foreign-unix", "no-cert", "netrpc", "link", "silent-socket":
		playHandshake(mode)
	default:
		if f := Modes[mode]; f != nil {
			f()
			return
		}
		playServe(mode)
	}
}

// Modes are modes of a package's own tests, which add them in an init function.
var Modes = map[string]func(){}

// playHandshake prints handshakes that go-plugin would accept.
func playHandshake(mode string) {
	sock := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "sock")
	cert := Certificate()
	switch mode {
	case "tcp":
		l, _ := net.Listen("tcp", "127.0.0.1:0")
		fmt.Printf("1|2|tcp|%s|grpc|%s\n", l.Addr(), cert)
		l.Accept()
		fmt.Fprintln(os.Stderr, "host dialled tcp")
	case "foreign-unix":
		net.Listen("unix", filepath.Join(os.Getenv("RLX_TEST_DIR"), "sock"))
		fmt.Printf("1|2|unix|%s|grpc|%s\n", filepath.Join(os.Getenv("RLX_TEST_DIR"), "sock"), cert)
	case "link":
		net.Listen("unix", filepath.Join(os.Getenv("RLX_TEST_DIR"), "sock"))
		os.Symlink(filepath.Join(os.Getenv("RLX_TEST_DIR"), "sock"), sock)
		fmt.Printf("1|2|unix|%s|grpc|%s\n", sock, cert)
	case "no-cert":
		net.Listen("unix", sock)
		fmt.Printf("1|2|unix|%s|grpc|\n", sock)
	case "netrpc":
		net.Listen("unix", sock)
		fmt.Printf("1|2|unix|%s|netrpc|%s\n", sock, cert)
	case "silent-socket": // listens but never accepts
		net.Listen("unix", sock)
		fmt.Printf("1|2|unix|%s|grpc|%s\n", sock, cert)
	}
	time.Sleep(time.Hour)
}

// scripted misbehaves at one point of the protocol and is otherwise a correct server.
type scripted struct {
	*server.Server
	action, point string
	step          int // step at which it misbehaves if point is "run"
}

// act misbehaves if this is the point. It may not return.
func (s *scripted) act(point string) {
	if s.point != point {
		return
	}
	if word, ok := strings.CutPrefix(s.action, "ring="); ok { // a false message by the doorbell
		n, err := strconv.ParseInt(word, 0, 64)
		if err != nil {
			panic(err)
		}
		s.Region.Store(256/8, n)
		time.Sleep(time.Hour)
	}
	switch s.action {
	case "wait-flags": // claims to wait for the socket, and that the host does
		s.Region.Store(200/8, -1)
		s.Region.Store(264/8, -1)
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "stop":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Second) // the signal may take a moment to stop all threads
	case "exit":
		os.Exit(0)
	case "panic":
		panic("kernel met \x1b[31m a bug")
	case "oom": // fatal error: out of memory
		unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30})
		for all := [][]byte{}; ; {
			all = append(all, make([]byte, 64<<20))
		}
	case "gopanic":
		go func() { panic("worker met a bug") }()
		time.Sleep(time.Hour)
	case "sleep", "orphan":
		time.Sleep(time.Hour)
	case "flood":
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 96 << 10 { // KiB
			os.NewFile(2, "stderr").Write(line)
		}
	case "evil-log": // go-plugin's own reader panics on this line
		os.NewFile(2, "stderr").Write([]byte("{\"@message\":1,\"@level\":[],\"@timestamp\":{}}\n"))
	}
}

func playServe(mode string) {
	action, point, ok := strings.Cut(mode, "@")
	if !ok {
		panic("unknown mode " + mode)
	}
	s := &scripted{action: action, point: point, step: -1}
	s.act("start")
	if p, n, ok := strings.Cut(point, ":"); ok && p == "run" {
		s.step, _ = strconv.Atoi(n)
	}
	backend := Reference{at: func(ctx context.Context, step int) error {
		if step == s.step {
			if code, ok := strings.CutPrefix(s.action, "code="); ok {
				return diag.New(diag.Code(code), "kernel", "found a bad value")
			}
			switch s.action {
			case "error":
				return errors.New("the \x1b[31mdevice fell off")
			case "wait": // ends when it is cancelled
				<-ctx.Done()
				return ctx.Err()
			}
			s.act(s.point)
		}
		return nil
	}}
	backend.lazy = s.action == "lazy"
	if s.action == "precise" {
		backend.precisions = []string{"f32", "bf16"}
	}
	fds, err := wire.InheritedFiles(os.Getenv(wire.FilesEnv))
	if err != nil {
		panic(err)
	}
	if s.action != "orphan" {
		server.EndWith(fds.Lifeline)
	}
	cfg := server.Config{Backend: backend, Decode: Decode, Log: serve.NewLogger(slog.LevelDebug)}
	if s.action == "slowbeat" {
		cfg.Beat = 900 * time.Millisecond
	}
	if s.Server, err = server.New(cfg, fds); err != nil {
		panic(err)
	}
	var options []grpc.ServerOption
	if s.action != "timeless" {
		options = server.Options(cfg.Log)
	}
	server.Serve(s, append(options, grpc.MaxSendMsgSize(1<<30))...)
	if s.action == "linger" {
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	}
}

// accepts reports whether the script says that a request which was refused with err is answered with success. The
// action is "accept=" and a part of the message.
func (s *scripted) accepts(err error) bool {
	text, ok := strings.CutPrefix(s.action, "accept=")
	return ok && err != nil && strings.Contains(status.Convert(err).Message(), text)
}

func (s *scripted) Info(ctx context.Context, r *rlxv1.InfoRequest) (*rlxv1.InfoReply, error) {
	s.act("info")
	reply, err := s.Server.Info(ctx, r)
	if err == nil && !strings.HasPrefix(s.point, "run:") { // lies about a run are told on its stream instead
		reply.DirectRuns = false
	}
	switch s.action {
	case "big":
		reply.Name = strings.Repeat("x", 96<<20)
	case "many":
		reply.Levels = make([]string, 100_000)
	case "undescribed":
		reply.Target = "target ref 1\ntypes f32\nrun matmul"
	case "another":
		reply.Target = strings.Replace(reply.Target, "target ref", "target cpu", 1)
	case "typo":
		reply.Devices[0].Type = "Reference"
	case "twin":
		reply.Devices = append(reply.Devices, reply.Devices[0])
	case "levels":
		reply.Levels = []string{"v9"}
	case "untyped":
		return nil, errors.New("no detail")
	}
	return reply, err
}

// countingLoad calls act before the n-th chunk of weights.
type countingLoad struct {
	grpc.ClientStreamingServer[rlxv1.LoadRequest, rlxv1.LoadReply]
	s *scripted
	n int
}

func (c *countingLoad) Recv() (*rlxv1.LoadRequest, error) {
	m, err := c.ClientStreamingServer.Recv()
	if m.GetWeights() != nil {
		c.s.act("chunk:" + strconv.Itoa(c.n))
		c.n++
	}
	return m, err
}

// SendAndClose falsifies the reply if the script says so.
func (c *countingLoad) SendAndClose(r *rlxv1.LoadReply) error {
	if c.s.action == "zeroid" {
		r.Executable = 0
	}
	return c.ClientStreamingServer.SendAndClose(r)
}

func (s *scripted) Load(st grpc.ClientStreamingServer[rlxv1.LoadRequest, rlxv1.LoadReply]) error {
	s.act("load")
	err := s.Server.Load(&countingLoad{st, s, 0})
	if s.accepts(err) {
		return st.SendAndClose(&rlxv1.LoadReply{Executable: 1})
	}
	return err
}

// liar falsifies the replies of a run.
type liar struct {
	grpc.BidiStreamingServer[rlxv1.RunRequest, rlxv1.RunReply]
	s *scripted
}

func (l *liar) Send(m *rlxv1.RunReply) error {
	done := m.GetDone()
	if done != nil {
		l.s.act("readback")
		if l.s.action == "uncounted" {
			l.s.Region.Store(wire.WordGeneration, 0)
			l.s.Region.Store(wire.WordSteps, 0)
		}
	}
	switch a := l.s.action; {
	case a == "oldgen" && done != nil:
		done.Generation--
	case a == "nandone" && done != nil:
		done.FirstNan = 2
	case a == "unset" && done != nil:
		done.FirstNan = 0
	case a == "nothing" && done != nil:
		return nil
	case a == "twice" && done != nil:
		l.BidiStreamingServer.Send(m)
	case a == "unasked":
		l.BidiStreamingServer.Send(
			&rlxv1.RunReply{Part: &rlxv1.RunReply_Dump{Dump: &rlxv1.Dump{Node: 2, First: true, Data: make([]byte, 9)}}})
	case a == "chunky":
		l.BidiStreamingServer.Send(
			&rlxv1.RunReply{Part: &rlxv1.RunReply_Output{Output: &rlxv1.Chunk{Index: 0, Data: make([]byte, 1<<20)}}})
	case a == "badindex":
		l.BidiStreamingServer.Send(
			&rlxv1.RunReply{Part: &rlxv1.RunReply_Output{Output: &rlxv1.Chunk{Index: -1, Data: make([]byte, 1)}}})
	case a == "huge":
		l.BidiStreamingServer.Send(
			&rlxv1.RunReply{Part: &rlxv1.RunReply_Output{Output: &rlxv1.Chunk{Data: make([]byte, 96<<20)}}})
	case a == "empty":
		l.BidiStreamingServer.Send(&rlxv1.RunReply{})
	case a == "moretimes" && done != nil:
		done.Steps += 1000
	case a == "fewertimes" && done != nil:
		done.Steps--
	case a == "unasked-times" && done != nil:
		done.Steps = 4
	}
	return l.BidiStreamingServer.Send(m)
}

func (s *scripted) Run(st grpc.BidiStreamingServer[rlxv1.RunRequest, rlxv1.RunReply]) error {
	s.act("run")
	err := s.Server.Run(&liar{st, s})
	if s.accepts(err) {
		return st.Send(&rlxv1.RunReply{Part: &rlxv1.RunReply_Done{Done: &rlxv1.Done{}}})
	}
	return err
}

// timeLiar falsifies step times.
type timeLiar struct {
	grpc.ServerStreamingServer[rlxv1.StatsReply]
	action string
}

func (l timeLiar) Send(m *rlxv1.StatsReply) error {
	switch n := len(m.Steps); l.action {
	case "inputtime": // node 0 is an input and has no step
		m.Steps[0].Node = 0
	case "fewertimes":
		m.Steps = m.Steps[:n-1]
	case "disorder":
		m.Steps[0], m.Steps[n-1] = m.Steps[n-1], m.Steps[0]
	case "nostep":
		m.Steps[n-1] = nil
	}
	return l.ServerStreamingServer.Send(m)
}

func (s *scripted) Stats(r *rlxv1.StatsRequest, st grpc.ServerStreamingServer[rlxv1.StatsReply]) error {
	s.act("stats")
	return s.Server.Stats(r, timeLiar{st, s.action})
}

func (s *scripted) Unload(ctx context.Context, r *rlxv1.UnloadRequest) (*rlxv1.UnloadReply, error) {
	s.act("unload")
	if s.action == "careless" {
		return &rlxv1.UnloadReply{}, nil
	}
	return s.Server.Unload(ctx, r)
}
