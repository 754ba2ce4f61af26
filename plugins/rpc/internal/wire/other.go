//go:build !linux && !darwin && !windows

package wire

import (
	"context"
	"os"
	"time"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// On this system no session starts. What follows lets the files for all systems compile.

// HaveShared is false on this system.
const HaveShared = false

const (
	WordBeat = iota
	WordGeneration
	WordSteps
	WordReady
	ReadyOutputs = 0
)

type Region struct{ Data []byte }

func (*Region) Load(int) int64    { return 0 }
func (*Region) Grow(int64) error  { return os.ErrInvalid }
func (*Region) Close()            {}
func (*Region) HasDoorbell() bool { return false }

type RunChannel struct{}

func (*RunChannel) Close()                                       {}
func (*RunChannel) UseDoorbell(*Region)                          {}
func (*RunChannel) Send(context.Context, *rlxv1.RunHeader) error { return os.ErrInvalid }
func (*RunChannel) Receive(context.Context, time.Duration) (*rlxv1.Done, error) {
	return nil, os.ErrInvalid
}

type NewWeights struct {
	File *os.File
	Data []byte
}

func MakeNewWeights() (*NewWeights, error)          { return nil, os.ErrInvalid }
func (*NewWeights) Grow(int64) error                { return os.ErrInvalid }
func (*NewWeights) Close()                          {}
func MapNewWeights(*os.File, int64) ([]byte, error) { return nil, os.ErrInvalid }
