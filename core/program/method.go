package program

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
)

// MaxMethodName is the longest name of a method, in bytes.
const MaxMethodName = 64

// CheckMethod returns an error if name is not valid for a method. Names of methods become parts of file names and are
// typed in shells. So they may have only lower-case letters, digits, _ and -, and must begin with a letter; see also
// ir.CheckName.
func CheckMethod(name string) error {
	if err := ir.CheckName(name); err != nil {
		return fmt.Errorf("method: %w", err)
	}
	ok := len(name) <= MaxMethodName
	for i, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '_' || c == '-'))
	}
	if !ok {
		return fmt.Errorf("method name %.80q; want 1 to %d of a-z, 0-9, _ and -, the first a letter", name,
			MaxMethodName)
	}
	return nil
}
