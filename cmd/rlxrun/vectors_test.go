package main

import (
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/format"
)

// TestVectorPrograms checks that a backend can decode the program of every vector.
func TestVectorPrograms(t *testing.T) {
	err := devicetest.Vectors(t.Context(), nil, func(v devicetest.Vector) error {
		b, err := format.EncodeProgram(v.Program)
		if err != nil {
			return err
		}
		if _, err := format.DecodeProgram(b); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
