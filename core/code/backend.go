package code

import "github.com/rlx-go/rlx/core/diag"

// Errors about a backend's process. Each also matches device.ErrLost, except Panicked and Refused: these fail one call,
// and the process keeps running.
var (
	NotPlugin = diag.Define("RLX5101", "not a backend", `
The file is missing, is not an executable for this system, or does not speak the backend protocol. A Go backend calls serve.Backend;
spec/protocol.md defines the protocol for other languages.`)
	Exited = diag.Define("RLX5102", "backend exited before it was ready", `
The backend's process ended before it reported its address. The message has the last ten lines of its output, if any. Common reasons are a missing
shared library and the wrong processor type.`)
	Handshake = diag.Define("RLX5103", "bad handshake", `
The program's first line is not a handshake, or names an address outside the private directory that it was given. The program was
stopped; it is probably not a backend.`)
	Start = diag.Define("RLX5104", "backend did not start in time", `
The program did not complete the handshake in time. The message says which part was missing: the line on stdout, its newline, the socket,
TLS or HTTP/2. The program was stopped.`)
	Version = diag.Define("RLX5105", "protocol versions differ", `
The backend and the host have no protocol version in common. Rebuild the backend with the host's release.`)
	Crashed = diag.Define("RLX5106", "backend crashed", `
The backend's process ended unexpectedly. The message gives the signal or exit status and, during a run, the step that started last.
The host and the artifact are unharmed.`)
	Stopped = diag.Define("RLX5107", "backend stopped answering", `
The backend's process is alive but missed a deadline, sent no heartbeat for some seconds, or spent more than --step-timeout in one step.
It was stopped. The message names the step that started last.`)
	Protocol = diag.Define("RLX5108", "backend broke the protocol", `
The backend's answer violates the protocol: a wrong size, index or generation, or a message over the limit. The backend was stopped and
none of its results were used.`)
	Digest = diag.Define("RLX5109", "backend has another digest", `
The SHA-256 of the backend's file is not the one you asked for, or a file of an installed plugin has changed. The message names the file.
The backend was not started. If you changed the file, install the plugin again with --replace. If not, find out who did.`)
	Closed = diag.Define("RLX5110", "backend closed", `
The session was closed before the call.`)
	Panicked = diag.Define("RLX5111", "backend panicked", `
A step hit a bug in the backend. The process survived, but the loaded program can no longer be used. The backend's log has the stack
trace: please report it.`)
	Quarantined = diag.Define("RLX5112", "backend quarantined", `
The backend crashed three times within a minute, each time before it had completed a run. It can start again one minute after the first
of these crashes.`)
	Platform = diag.Define("RLX5113", "no backend processes on this system", `
Backends need unix sockets and inherited file descriptors, which RLX does not support on this operating system.`)
	Host = diag.Define("RLX5114", "no room for the backend", `
The host could not create what a backend needs: a private directory for its socket, the shared memory, or the process itself. The
message has the system's reason.`)
	Refused = diag.Define("RLX5115", "backend refused a request", `
The backend received a request that violates the protocol, such as a size that does not fit the program. Either side has a bug, or they
come from different releases. Rebuild both from one release, and report it if it happens again. The backend continues.`)
	Busy = diag.Define("RLX5116", "backend busy", `
A program could not be unloaded because a run of the same session took longer than an unload may wait. Backend and run are fine. Unload
the program when the run has ended, or close the session, which frees everything.`)
	Sandbox = diag.Define("RLX5117", "no sandbox for the backend", `
The sandbox keeps a backend from the network, other processes and your files. --sandbox=require was given, but the system lacks Landlock
or seccomp, or the backend declares that it cannot run in a sandbox; or the declaration beside its executable has an unknown word; or the
kernel refused a restriction. The backend was not started.`)
)
