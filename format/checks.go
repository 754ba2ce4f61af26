package format

import (
	"fmt"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// Numbers of checks that several functions report; see checks below.
const (
	checkSchema   = 15
	checkState    = 45
	checkSegments = 46
	checkLoop     = 47
)

// fail returns the error of a check. where is the section or part; at is the byte offset in it, or -1 if there is no
// offset.
func fail(check int, where string, at int64, format string, args ...any) error {
	if at >= 0 {
		where = fmt.Sprintf("%s, byte %d", where, at)
	}
	return diag.New(code.Verifier(check), "", where+": "+format, args...)
}
