// Package faults runs a command and makes one chosen system call fail, or kills the process there. As in SQLite's
// tests, this shows that every failure is handled. It traces static binaries from outside, with ptrace and a seccomp
// filter that stops at the calls of interest. It counts calls over all threads and processes of the command, because a
// Go program may make its n-th call on any thread.
//
// It is for tests on Linux on x86-64. The calling process must call Main first, and must have no other children while
// Run works.
package faults
