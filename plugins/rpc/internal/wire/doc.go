// Package wire has what both sides of the protocol between hosts and backends need: its limits, the form of errors and
// descriptions in messages, the files that a backend inherits, the shared region, and the channel for runs. The
// messages themselves are in rlxv1.
package wire

//go:generate sh -c "cd ../../_protogen && go run ."
