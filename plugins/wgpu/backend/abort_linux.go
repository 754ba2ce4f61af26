//go:build cgo && amd64

package backend

/*
#cgo LDFLAGS: -Wl,-wrap,write

#include <signal.h>
#include <string.h>
#include <unistd.h>

// What this thread said on standard error, from where the library began to tell of its end.
static _Thread_local char rlx_words[1024];
static _Thread_local size_t rlx_words_size;

ssize_t __real_write(int fd, const void *data, size_t size);

// The linker gives this to all C code of the program that calls write, the library included.
ssize_t __wrap_write(int fd, const void *data, size_t size) {
	static const char begin[] = "thread '";
	if (fd == STDERR_FILENO) {
		if (size >= sizeof begin - 1 && memcmp(data, begin, sizeof begin - 1) == 0) rlx_words_size = 0;
		size_t n = sizeof rlx_words - rlx_words_size;
		if (n > size) n = size;
		memcpy(rlx_words + rlx_words_size, data, n);
		rlx_words_size += n;
	}
	return __real_write(fd, data, size);
}

static struct sigaction rlx_before;
static int rlx_tell; // -1 once a thread has aborted: its number may be another file's by then

// A thread that calls abort stays here for good, with all the locks that it holds. A signal from another process goes
// where it went before.
static void rlx_on_abort(int sig, siginfo_t *info, void *context) {
	if (info->si_code == SI_TKILL && info->si_pid == getpid()) {
		int tell = __atomic_exchange_n(&rlx_tell, -1, __ATOMIC_SEQ_CST);
		if (tell >= 0) {
			ssize_t told = __real_write(tell, rlx_words, rlx_words_size);
			(void)told; // the end of the file tells that there was an abort
			close(tell);
		}
		for (;;) pause();
	}
	if (rlx_before.sa_flags & SA_SIGINFO) rlx_before.sa_sigaction(sig, info, context);
}

static int rlx_catch_abort(int tell) {
	struct sigaction a;
	memset(&a, 0, sizeof a);
	rlx_tell = tell;
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

var abortPipe *os.File // is never closed from here

// catchAbort makes C code that calls abort, on any thread, wait there for good instead of ending the process. What the
// thread said before is handed to told.
func catchAbort(told func(said string)) {
	r, w, err := os.Pipe()
	if err != nil {
		return // the process will end as it would have
	}
	abortPipe = w
	if C.rlx_catch_abort(C.int(w.Fd())) != 0 {
		return
	}
	go func() {
		said, _ := io.ReadAll(r)
		told(string(said))
	}()
}
