package train_test

import (
	"testing"

	"github.com/rlx-go/rlx/internal/rlxtest"
)

// TestMain also acts as the backend.
func TestMain(m *testing.M) { rlxtest.Main(m, nil) }
