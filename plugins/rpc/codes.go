package rpc

import "github.com/rlx-go/rlx/core/diag"

// Errors about a backend's process. Each also matches device.ErrLost, except ErrPanicked and ErrRefused, which are errors of one
// call, after which the process still runs.
var (
	ErrNotPlugin = diag.Define("RLX5101", "not a backend", `
The file is missing, is not an executable of this system, or is not a program that speaks the backend protocol.
A backend is a program that serves plugins/rpc (or spec/protocol.md in another language).`)
	ErrExited = diag.Define("RLX5102", "backend exited before it was ready", `
The backend's process ended before it had said where it listens. Its last words are in the message where it had any; a
missing shared library and a wrong processor type are common reasons.`)
	ErrHandshake = diag.Define("RLX5103", "bad handshake", `
The first line that the program printed is not a handshake, or names an address other than a socket in the private
directory it was given. The program was ended; it is probably not a backend.`)
	ErrStart = diag.Define("RLX5104", "backend did not start in time", `
The program ran but did not complete the handshake within the time allowed. It was ended.`)
	ErrVersion = diag.Define("RLX5105", "protocol versions differ", `
The backend and the host have no protocol version in common. Rebuild the backend with the release of the host.`)
	ErrCrashed = diag.Define("RLX5106", "backend crashed", `
The backend's process ended while the host still needed it. The message names the step that had started last, where a
run was going on, and the signal or exit status. The host and the artifact are unharmed.`)
	ErrStopped = diag.Define("RLX5107", "backend stopped answering", `
The backend's process is alive but gave no answer within the deadline, or no sign of life for some seconds. It was
ended. The message names the step that had started last.`)
	ErrProtocol = diag.Define("RLX5108", "backend broke the protocol", `
The backend answered with something that the protocol does not allow: a size, an index or a generation that is not what
was asked for, or a message over the limit. It was ended and none of its results were used.`)
	ErrDigest = diag.Define("RLX5109", "backend has another digest", `
The SHA-256 of the backend's file is not the one that was asked for, or the files of an installed plugin are not those that were installed:
the message names the file. It was not started. If you changed or updated the file, install the plugin again with --replace; if you did
not, find out who did.`)
	ErrClosed = diag.Define("RLX5110", "backend closed", `
The session with the backend was closed before the call.`)
	ErrPanicked = diag.Define("RLX5111", "backend panicked", `
A step of the run met a bug in the backend; the process survived, the loaded program is no longer used. The backend's
log has the stack: please report it.`)
	ErrQuarantined = diag.Define("RLX5112", "backend quarantined", `
The backend crashed three times within a minute. It is not started again until a minute has passed since the first of
these crashes.`)
	ErrPlatform = diag.Define("RLX5113", "no backend processes on this system", `
Backends need unix sockets and inherited file descriptors, which this operating system lacks in the form used here.`)
	ErrHost = diag.Define("RLX5114", "no room for the backend", `
The host could not prepare what a backend needs: a private directory for its socket, the shared region, or the process
itself. The message has the system's reason.`)
	ErrRefused = diag.Define("RLX5115", "backend refused a request", `
The backend met a request that the protocol does not allow, such as a size that does not fit the program. The host or the
backend has a bug, or they are builds that do not belong together: rebuild both from one release, and report it if it
recurs. The backend goes on.`)
	ErrBusy = diag.Define("RLX5116", "backend busy", `
A program could not be unloaded because a run of the same session went on for longer than an unload may take. The backend
and the run are in order: unload the program when the run has ended, or close the session, which frees everything.`)
	ErrSandbox = diag.Define("RLX5117", "no sandbox for the backend", `
A sandbox was required (--sandbox=require) and the system lacks Landlock or seccomp, or the backend declares that it cannot
run in one; or the declaration beside its executable has a word that is not known; or the kernel refused a restriction. The
backend was not started. The sandbox keeps a backend from the network, from other processes and from the user's files.`)
)
