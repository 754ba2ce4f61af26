package wire

// The protocol's constants. spec/protocol.md lists them; both sides check them.
const (
	// Version is the protocol version of this package. A host offers the versions that it knows, and a backend chooses
	// the newest one that it knows as well.
	Version = 2

	// MaxMessage bounds a gRPC message in both directions, in bytes.
	MaxMessage = 4 << 20
	// MaxChunk bounds the payload of one message of a stream, in bytes.
	MaxChunk = 64 << 10
	// MaxProgram bounds an encoded program, in bytes. It equals the file format's limit on structure.
	MaxProgram = 384 << 20
	// MaxStreamed bounds weights sent in chunks, in bytes.
	MaxStreamed = 4 << 30

	MaxHeaderList    = 64 << 10 // bytes of HTTP/2 headers, which carry error details
	MaxStepsPerReply = 2048
	MaxListed        = 4096 // ops, devices or kernels in one list
	MaxLine          = 4096 // bytes of the handshake line

	CookieKey   = "RLX_BACKEND"
	CookieValue = "1f6d3a52c7e84b0e9d0b5a6f2c91e0d4" // tells a backend that a host started it; not a secret
	// descriptors, such as lifeline=3,io=4,artifact=5,runs=6,executable=7
	FilesEnv   = "RLX_FDS"
	PluginName = "backend"

	// NoSharedMemory is an environment variable. The value "1" turns the shared region off.
	NoSharedMemory = "RLX_NO_SHM"
	// FolderEnv is an environment variable that holds the folder of an installed plugin.
	FolderEnv = "RLX_PLUGIN_DIR"
)

// Full names of the methods that are called or served. The last three belong to go-plugin.
const (
	ServiceMethods = "/rlx.v1.Backend/"
	ShutdownMethod = "/plugin.GRPCController/Shutdown"
	StdioMethod    = "/plugin.GRPCStdio/StreamStdio"
	HealthMethod   = "/grpc.health.v1.Health/Check"
)

// InRange reports whether [off, off+size) lies within n bytes, without overflow.
func InRange(off, size, n int64) bool {
	return off >= 0 && size >= 0 && n >= 0 && off <= n && size <= n-off
}
