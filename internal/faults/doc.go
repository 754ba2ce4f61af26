// Package faults runs a command and makes one chosen system call of it fail, or kills it there: as SQLite's tests do, to show that
// every failure is handled. It traces static binaries from outside (ptrace and a seccomp filter that stops at the
// calls of interest), and counts over all threads and all processes that the command starts, because a Go program makes
// its n-th call on any thread.
//
// It is for tests, on Linux on x86-64. Its own process must have no other children while
// Run works, and must call Main first.
package faults
