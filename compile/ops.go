package compile

import (
	"fmt"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/regular"
)

// readOps reads definitions of ops from files and from texts.
func readOps(files, texts []string) (*custom.Library, error) {
	l := &custom.Library{}
	for _, path := range files {
		text, err := regular.ReadFile(path, custom.MaxText)
		if err != nil {
			return nil, diag.New(code.OpFile, path, "cannot be read: %w", err)
		}
		if err := l.Parse(path, string(text)); err != nil {
			return nil, err
		}
	}
	for k, text := range texts {
		if err := l.Parse(fmt.Sprintf("definition %d", k+1), text); err != nil {
			return nil, err
		}
	}
	return l, nil
}
