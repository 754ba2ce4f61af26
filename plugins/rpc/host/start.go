//go:build linux || darwin || windows

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// offered lists the protocol versions that this host supports.
var offered = []int{Version}

// Start starts the backend at opts.Path, and returns when it has received the backend's description. It needs neither
// the program nor the weights, so the process can start while the artifact is being verified. If Start fails, it leaves
// no process and no socket behind. Start marks all descriptors of this process from 3 up close-on-exec, so that the
// backend does not inherit them.
func Start(ctx context.Context, opts Options) (*Session, error) {
	opts.Timeouts = opts.Timeouts.WithDefaults()
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, lost(code.NotPlugin, "backend "+opts.Path, "%w", err)
	}
	s := newSession(opts)
	s.msgs.line("#", "starts "+path)
	abandon := func(err error) (*Session, error) {
		s.msgs.line("#", "the start failed: "+err.Error())
		s.fail(err)
		s.Close()
		return nil, s.hintSandbox(err)
	}
	if err := s.prepare(path); err != nil {
		return abandon(err)
	}
	if err := s.launch(ctx); err != nil {
		return abandon(err)
	}
	go func() {
		<-s.proc.exited
		s.fail(s.crashed())
	}()
	if s.info, err = s.fetchInfo(ctx); err != nil {
		return abandon(err)
	}
	return s, nil
}

// prepare decides how the backend is confined, and opens the descriptors that it will inherit.
func (s *Session) prepare(path string) error {
	if s.opts.Artifact != nil {
		if err := checkReadOnly(s.opts.Artifact); err != nil {
			return lost(code.Host, s.name, "artifact: %w", err)
		}
	}
	folder := s.opts.Folder
	if folder != nil {
		if err := folder.Verify(); err != nil {
			return lost(code.Digest, s.name, "%w", err)
		}
	}
	exe, err := openBackend(s.name, path, s.opts)
	if err != nil {
		return err
	}
	s.exe = exe
	var declared declaration
	if folder != nil {
		declared, err = parseDeclaration("its installed declaration", folder.Declares)
	} else {
		declared, err = readDeclaration(path)
	}
	s.declared = declared.path
	if err != nil {
		return lost(code.Sandbox, s.name, "its sandbox declaration cannot be read: %w", err)
	}
	if s.confined, err = confine(s.name, s.opts.Sandbox, declared, availableLayers()); err != nil {
		return err
	}
	hostErr := func(what string, err error) error { return lost(code.Host, s.name, "%s: %w", what, err) }
	if s.dir, err = newPrivateDir(s.opts.TempDir); err != nil {
		return hostErr("creating the private directory for its socket", err)
	}
	if s.opts.shared() {
		if s.region, err = wire.NewRegion(); err != nil {
			return hostErr("creating the shared region", err)
		}
		if s.opts.IOSize > 0 {
			if err := s.region.Grow(s.opts.IOSize); err != nil {
				return lost(device.ErrMemory, s.name, "shared region of %d bytes: %w", s.opts.IOSize, err)
			}
		}
	}
	if s.region != nil && s.opts.Artifact != nil {
		if s.newWeights, err = wire.MakeNewWeights(); err != nil {
			return hostErr("creating the memory for weights", err)
		}
	}
	if s.region != nil {
		if s.direct, s.runsEnd, err = wire.NewRunChannel(); err != nil {
			return hostErr("creating the run channel", err)
		}
	}
	if s.lifelineR, s.lifelineW, err = os.Pipe(); err != nil {
		return hostErr("creating the lifeline", err)
	}
	return nil
}

// launch starts the process and completes the handshake. go-plugin waits without a context, so it runs in a separate
// goroutine. Killing the process ends that wait.
func (s *Session) launch(ctx context.Context) error {
	files := &wire.Files{Lifeline: s.lifelineR, Artifact: s.opts.Artifact, Runs: s.runsEnd, Executable: s.exe}
	if s.region != nil {
		files.IO = s.region.File
	}
	if s.newWeights != nil {
		files.Weights = s.newWeights.File
	}
	env := s.opts.environment()
	if s.confined.confined() {
		env = append(env, s.confined.environment(s.Name(), s.dir.path)...)
	}
	id, err := newHostIdentity()
	if err != nil {
		return lost(code.Host, s.name, "creating the certificate for the session: %w", err)
	}
	env = append(env, "PLUGIN_CLIENT_CERT="+id.pem)
	r := &backendRunner{name: s.name, path: s.opts.Path, exe: s.exe, inMemory: inMemory && s.opts.pinned(),
		files: files, env: env,
		dir: s.dir.path, folder: folderDir(s.opts.Folder), confined: s.confined, versions: offered, log: s.log}
	s.runner = r
	sets := map[int]goplugin.PluginSet{}
	for _, v := range offered {
		sets[v] = goplugin.PluginSet{wire.PluginName: hostPlugin{}}
	}
	s.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		VersionedPlugins: sets,
		RunnerFunc:       r.build,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     2 * s.opts.Timeouts.Start, // longer than the timeout below, which gives a typed error
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: s.dir.path},
		GRPCDialOptions:  dialOptions(r, id, s.opts.Timeouts.Stop, s.msgs),
		SyncStdout:       s.log,
		SyncStderr:       s.log,
		Logger:           hclog.NewNullLogger(),
	})
	done := make(chan error, 1)
	go func() {
		conn, err := connect(s.client)
		s.conn = conn
		done <- err
	}()
	limit := time.NewTimer(s.opts.Timeouts.Start)
	defer limit.Stop()
	select {
	case err = <-done:
	case <-limit.C:
		e := lost(code.Start, s.name, "%s did not complete the handshake within %v: %s", s.opts.Path,
			s.opts.Timeouts.Start, r.missing())
		if output := s.log.lastLines(quotedLines); output != "" {
			e.Msg += "; its last output: " + output
		}
		r.setFault(e)
	case <-ctx.Done():
		r.setFault(interrupted(s.name, ctx))
	}
	if err == nil && r.fault.Load() != nil {
		r.kill()
		err = <-done
	}
	s.proc = r.proc.Load()
	if h := r.accepted.Load(); h != nil {
		s.msgs.line(
			"#", fmt.Sprintf("handshake: version %d, socket %s, a certificate of %d bytes", h.version, h.socket,
				len(h.cert)))
	}
	if fault := r.fault.Load(); fault != nil {
		return fault
	}
	if err != nil {
		r.kill()
		return lost(code.Handshake, s.name, "%w", err)
	}
	if s.runsEnd != nil {
		s.runsEnd.Close() // now only the backend has this end, so the host reads io.EOF when the backend closes it
	}
	s.api = rlxv1.NewBackendClient(s.conn)
	return nil
}

// folderDir returns the directory of f, or "" if f is nil.
func folderDir(f *Folder) string {
	if f == nil {
		return ""
	}
	return f.Dir
}

// connect calls go-plugin, and converts its panics to errors, because some handshakes make it panic.
func connect(c *goplugin.Client) (conn *grpc.ClientConn, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = diag.New(code.Handshake, "", "go-plugin panicked: %v", p)
		}
	}()
	proto, err := c.Client()
	if err != nil {
		return nil, err
	}
	raw, err := proto.Dispense(wire.PluginName)
	if err != nil {
		return nil, err
	}
	conn, ok := raw.(*grpc.ClientConn)
	if !ok {
		return nil, errors.New("no connection")
	}
	return conn, nil
}
