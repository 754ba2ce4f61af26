package compile

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/onnx"
)

// IsONNX reports whether Load takes path for an ONNX model: whether it ends in .onnx.
func IsONNX(path string) bool { return filepath.Ext(path) == ".onnx" }

// loadONNX reads an ONNX model, which becomes the method main.
func (m *Model) loadONNX(ctx context.Context) error {
	m.Files = append(m.Files, m.path)
	m.Name = strings.TrimSuffix(filepath.Base(m.path), filepath.Ext(m.path))
	m.blame = func(err error) error { return diag.New(code.GraphText, m.path, "%w", err) }
	file, err := ctxio.Do(ctx, "open", func() (*onnx.File, error) { return onnx.Open(m.path) }, (*onnx.File).Close)
	if err != nil {
		return err
	}
	m.close = file.Close
	// The messages take a few times their bytes in the file, at most.
	if err := m.memory.Reserve("graphs", 4*file.InMemory()); err != nil {
		return aboutSource(m.path, err)
	}
	o := onnx.Options{Sizes: map[string]onnx.Range{}, Values: m.options.Values}
	for name, n := range m.options.Sizes {
		o.Sizes[name] = onnx.Range{Min: n, Max: n}
	}
	for name, r := range m.options.Ranges {
		o.Sizes[name] = onnx.Range{Min: r[0], Max: r[1]}
	}
	imported, err := ctxio.Do(ctx, "import", func() (*onnx.Model, error) { return onnx.Import(file, o) }, nil)
	if err != nil {
		return err
	}
	m.built = &arch.Model{Arch: "onnx", Methods: []*ir.Graph{imported.Graph}}
	fact := func(name, format string, args ...any) {
		m.built.Facts = append(m.built.Facts, arch.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	if imported.Producer != "" {
		fact("producer", "%s", imported.Producer)
	}
	fact("opset", "%d", imported.Opset)
	for _, s := range imported.Sizes {
		how := "--size"
		if !s.Given {
			how = fmt.Sprintf("default; choose with --size %s=MIN..MAX or --size %s=N", s.Name, s.Name)
		}
		fact("size "+s.Name, "%d to %d (%s)", s.Min, s.Max, how)
	}
	m.values = &values{infinite: map[string]int64{}, lazy: imported.Param}
	sum, err := ctxio.Do(ctx, "digest", file.Digest, nil)
	if err != nil {
		return err
	}
	m.sources = []format.Source{{Name: filepath.Base(m.path), Size: file.Size(), SHA256: sum}}
	return nil
}
