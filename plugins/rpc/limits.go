package rpc

import "time"

// The protocol's constants. spec/protocol.md lists them; both sides check them.
const (
	// Version is the protocol version of this package. A host offers the versions that it knows, and a backend chooses the newest one
	// that it knows as well.
	Version = 2

	// MaxMessage bounds a gRPC message in both directions, in bytes.
	MaxMessage = 4 << 20
	// MaxChunk bounds the payload of one message of a stream, in bytes.
	MaxChunk = 64 << 10
	// MaxProgram bounds an encoded program, in bytes. It equals the file format's limit on structure.
	MaxProgram = 384 << 20
	// MaxStreamed bounds weights sent in chunks, in bytes.
	MaxStreamed = 4 << 30

	maxHeaderList    = 64 << 10 // bytes of HTTP/2 headers, which carry error details
	maxStepsPerReply = 2048
	maxListed        = 4096 // ops, devices or kernels in one list
	maxLine          = 4096 // bytes of the handshake line

	cookieKey   = "RLX_BACKEND"
	cookieValue = "1f6d3a52c7e84b0e9d0b5a6f2c91e0d4" // tells a backend that a host started it; not a secret
	fdsEnv      = "RLX_FDS"                          // descriptors, such as lifeline=3,io=4,artifact=5,runs=6,executable=7
	pluginName  = "backend"

	// NoSharedMemory is an environment variable. The value "1" turns the shared region off.
	NoSharedMemory = "RLX_NO_SHM"
	// FolderEnv is an environment variable that holds the folder of an installed plugin.
	FolderEnv = "RLX_PLUGIN_DIR"
)

// Full names of the methods that are called or served. The last three belong to go-plugin.
const (
	serviceMethods = "/rlx.v1.Backend/"
	shutdownMethod = "/plugin.GRPCController/Shutdown"
	stdioMethod    = "/plugin.GRPCStdio/StreamStdio"
	healthMethod   = "/grpc.health.v1.Health/Check"
)

// Timeouts bound the time that a backend may take. The caller's context can shorten but not extend them. A value of zero selects the
// default given below.
type Timeouts struct {
	Start time.Duration // from process start to the end of the handshake: 30 s
	Info  time.Duration // 10 s
	Load  time.Duration // 2 min, because a GPU backend compiles its shaders
	Run   time.Duration // 1 h
	// Step is the longest time between two changes of the number of steps that have started: 10 min. It ends a run whose kernel never
	// returns, although the process still sends heartbeats. A negative value means no limit.
	Step   time.Duration
	Stats  time.Duration // 10 s
	Unload time.Duration // 10 s
	// Stall is the longest interval between heartbeats during a call, for backends that send them: 10 s. A Go program sends none while its
	// runtime waits for a thread to reach a safe point, so Stall must be much longer than the longest kernel call.
	Stall time.Duration
	// Cancel is how long a cancelled run may take to end before the backend is killed: 2 s.
	Cancel time.Duration
	// Stop is how long Close waits after each attempt to end the backend: 1 s.
	Stop time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&t.Start, 30*time.Second) // a Python program with NumPy and gRPC needs one second, and ten on a busy machine
	set(&t.Info, 10*time.Second)
	set(&t.Load, 2*time.Minute)
	set(&t.Run, time.Hour)
	if t.Step == 0 {
		t.Step = 10 * time.Minute
	}
	set(&t.Stats, 10*time.Second)
	set(&t.Unload, 10*time.Second)
	set(&t.Stall, 10*time.Second)
	set(&t.Cancel, 2*time.Second)
	set(&t.Stop, time.Second)
	return t
}

// inRange reports whether [off, off+size) lies within n bytes, without overflow.
func inRange(off, size, n int64) bool {
	return off >= 0 && size >= 0 && n >= 0 && off <= n && size <= n-off
}
