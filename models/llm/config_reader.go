package llm

import (
	"math"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/models/arch"
)

// A reader reads a configuration. It stops at the first error, which it keeps.
type reader struct {
	arch.Config
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) int(key string, lo, hi, otherwise int64) int64 {
	v, ok, err := r.Int(key, lo, hi)
	r.fail(err)
	if !ok || err != nil {
		return otherwise
	}
	return v
}

func (r *reader) float(key string, otherwise float64) float64 {
	v, ok, err := r.Float(key)
	r.fail(err)
	if !ok {
		return otherwise
	}
	return v
}

// positive reads a number that must be positive.
func (r *reader) positive(key string, otherwise float64) float64 {
	v := r.float(key, otherwise)
	if r.err == nil && !(v > 0 && v <= math.MaxFloat32) {
		r.fail(diag.New(arch.ErrConfig, r.Origin(key), "%s is %v; want a positive number", key, v))
	}
	return v
}

func (r *reader) string(key, otherwise string) string {
	v, ok, err := r.String(key)
	r.fail(err)
	if !ok {
		return otherwise
	}
	return v
}

func (r *reader) bool(key string, otherwise bool) bool {
	v, ok, err := r.Bool(key)
	r.fail(err)
	if !ok {
		return otherwise
	}
	return v
}

// cap reads a softcap; null switches it off.
func (r *reader) cap(key string, otherwise float64) float64 {
	if r.Given(key) {
		otherwise = 0
	}
	v := r.float(key, otherwise)
	if !(v >= 0 && v <= math.MaxFloat32) {
		r.fail(diag.New(arch.ErrConfig, r.Origin(key), "%s is %v; want a positive number, or null", key, v))
	}
	return v
}

func (r *reader) agree(key string, fromTensors int64) { r.fail(r.Agree(key, fromTensors)) }

// bias checks that a key for biases agrees with the tensors.
func (r *reader) bias(key string, found bool) {
	if r.bool(key, found) != found {
		r.fail(diag.New(arch.ErrConfig, r.Origin(key), "%s is %v; the tensors say %v", key, !found, found))
	}
}
