package driver

import (
	"testing"

	"github.com/rlx-go/rlx/core/target"
)

// TestTarget checks that the compiler's target metal equals the description that the backend sends.
func TestTarget(t *testing.T) {
	_, b := start(t, t.TempDir())
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, ok := target.Find(target.Metal)
	if !ok || info.Target.String() != d.String() {
		t.Errorf("the backend's description is\n%v\nthe compiler's is\n%v", info.Target, d)
	}
}
