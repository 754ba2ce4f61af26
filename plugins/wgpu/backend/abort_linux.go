//go:build cgo && amd64

package backend

/*
#cgo LDFLAGS: -Wl,-wrap,write

#include <signal.h>
#include <string.h>
#include <unistd.h>

// What this thread has written to standard error, from the start of the library's panic message.
static _Thread_local char rlx_message[1024];
static _Thread_local size_t rlx_message_size;

ssize_t __real_write(int fd, const void *data, size_t size);

// The linker redirects all calls of write in C code to this function, including those of the library.
ssize_t __wrap_write(int fd, const void *data, size_t size) {
	static const char begin[] = "thread '";
	if (fd == STDERR_FILENO) {
		if (size >= sizeof begin - 1 && memcmp(data, begin, sizeof begin - 1) == 0) rlx_message_size = 0;
		size_t n = sizeof rlx_message - rlx_message_size;
		if (n > size) n = size;
		memcpy(rlx_message + rlx_message_size, data, n);
		rlx_message_size += n;
	}
	return __real_write(fd, data, size);
}

static struct sigaction rlx_before;
static int rlx_report_fd; // -1 once a thread has aborted, because another file may reuse the number

// A thread that calls abort waits here forever and keeps its locks. A signal from another process goes to the previous handler.
static void rlx_on_abort(int sig, siginfo_t *info, void *context) {
	if (info->si_code == SI_TKILL && info->si_pid == getpid()) {
		int fd = __atomic_exchange_n(&rlx_report_fd, -1, __ATOMIC_SEQ_CST);
		if (fd >= 0) {
			ssize_t written = __real_write(fd, rlx_message, rlx_message_size);
			(void)written; // if it fails, end of file still reports the abort
			close(fd);
		}
		for (;;) pause();
	}
	if (rlx_before.sa_flags & SA_SIGINFO) rlx_before.sa_sigaction(sig, info, context);
}

static int rlx_catch_abort(int fd) {
	struct sigaction a;
	memset(&a, 0, sizeof a);
	rlx_report_fd = fd;
	a.sa_sigaction = rlx_on_abort;
	a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	sigfillset(&a.sa_mask);
	return sigaction(SIGABRT, &a, &rlx_before);
}
*/
import "C"

import (
	"io"
	"os"
)

var abortPipe *os.File // never closed by Go code

// catchAbort makes C code that calls abort, on any thread, block forever instead of ending the process. It calls report
// with what the thread wrote to standard error before.
func catchAbort(report func(said string)) {
	r, w, err := os.Pipe()
	if err != nil {
		return // then an abort ends the process
	}
	abortPipe = w
	if C.rlx_catch_abort(C.int(w.Fd())) != 0 {
		return
	}
	go func() {
		said, _ := io.ReadAll(r)
		report(string(said))
	}()
}
