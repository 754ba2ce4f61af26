package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// declarationSuffix is appended to the path of a backend's executable to name its sandbox declaration.
const declarationSuffix = ".sandbox"

const maxDeclaration = 4 << 10 // bytes

// readDeclaration reads the declaration of the backend at path. The declaration is empty if the file does not exist.
func readDeclaration(path string) (declaration, error) {
	d := declaration{path: path + declarationSuffix}
	f, err := os.OpenFile(d.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return d, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxDeclaration {
		return d, fmt.Errorf("%s is not a file of at most %d bytes", d.path, maxDeclaration)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxDeclaration))
	if err != nil {
		return d, err
	}
	return parseDeclaration(d.path, string(b))
}

// parseDeclaration parses the words of a declaration. path appears in errors.
func parseDeclaration(path, text string) (declaration, error) {
	d := declaration{path: path}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for _, word := range strings.Fields(line) {
			switch word {
			case wordGPU:
				d.gpu = true
			case wordNone:
				d.none = true
			default:
				return d, fmt.Errorf("%s says %q; allowed are %s, %s", d.path, wire.Abridge(wire.Clean(word), 40),
					wordGPU, wordNone)
			}
		}
	}
	return d, nil
}
