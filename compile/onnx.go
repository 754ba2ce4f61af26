package compile

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/onnx"
)

// IsONNX reports whether Load takes path for an ONNX model: whether it ends in .onnx.
func IsONNX(path string) bool { return filepath.Ext(path) == ".onnx" }

// loadONNX reads ONNX models, each of which becomes a method.
func (m *Model) loadONNX(ctx context.Context) error {
	paths := append([]string{m.path}, m.options.Models...)
	m.Files = append(m.Files, paths...)
	m.Name = strings.TrimSuffix(filepath.Base(m.path), filepath.Ext(m.path))
	m.blame = func(err error) error { return diag.New(code.GraphText, m.path, "%w", err) }
	o := onnx.Options{Sizes: map[string]onnx.Range{}, Values: m.options.Values, Custom: m.custom}
	for name, n := range m.options.Sizes {
		o.Sizes[name] = onnx.Range{Min: n, Max: n}
	}
	for name, r := range m.options.Ranges {
		o.Sizes[name] = onnx.Range{Min: r[0], Max: r[1]}
	}
	if len(paths) > 1 {
		o.Weights = onnx.NewWeights()
	}
	var open []*onnx.File
	m.close = func() {
		for _, f := range open {
			f.Close()
		}
	}
	m.built = &arch.Model{Arch: "onnx"}
	sizes := map[string]onnx.Size{}
	for i, path := range paths {
		file, err := ctxio.Do(ctx, "open", func() (*onnx.File, error) { return onnx.Open(path) }, (*onnx.File).Close)
		if err != nil {
			return err
		}
		open = append(open, file)
		if o.Method, err = m.methodName(i, path); err != nil {
			return err
		}
		imported, err := m.addONNX(ctx, path, file, o)
		if err != nil {
			return err
		}
		for _, s := range imported.Sizes {
			sizes[s.Name] = s
		}
		m.values = &values{infinite: map[string]int64{}, lazy: imported.Param}
	}
	return m.describeSizes(o, sizes)
}

// methodName returns the name of the method of model i.
func (m *Model) methodName(i int, path string) (string, error) {
	name := "main"
	switch {
	case len(m.options.Methods) > 0:
		name = m.options.Methods[i]
	case len(m.options.Models) > 0:
		name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	if clean := onnx.Name(name); clean != name && len(m.options.Methods) > 0 {
		return "", usage("--method-name "+name, "has characters that names may not have; try %s", clean)
	}
	name = onnx.Name(name)
	for _, g := range m.built.Methods {
		if g.Name == name {
			return "", usage("compile", "two models would be method %s", name).WithHint(
				"give each a name: --method-name NAME --method-name NAME")
		}
	}
	return name, nil
}

// addONNX imports a model as a method.
func (m *Model) addONNX(ctx context.Context, path string, file *onnx.File, o onnx.Options) (*onnx.Model, error) {
	// The messages take a few times their bytes in the file, at most.
	if err := m.memory.Reserve("graphs", 4*file.InMemory()); err != nil {
		return nil, aboutSource(path, err)
	}
	imported, err := ctxio.Do(ctx, "import", func() (*onnx.Model, error) { return onnx.Import(file, o) }, nil)
	if err != nil {
		return nil, err
	}
	sum, err := ctxio.Do(ctx, "digest", file.Digest, nil)
	if err != nil {
		return nil, err
	}
	m.built.Methods = append(m.built.Methods, imported.Graph)
	m.sources = append(m.sources, format.Source{Name: filepath.Base(path), Size: file.Size(), SHA256: sum})
	of := ""
	if len(m.options.Models) > 0 {
		of = " of " + imported.Graph.Name
	}
	if imported.Producer != "" {
		m.fact("producer"+of, "%s", imported.Producer)
	}
	m.fact("opset"+of, "%d", imported.Opset)
	return imported, nil
}

// fact adds a line about the model.
func (m *Model) fact(name, format string, args ...any) {
	m.built.Facts = append(m.built.Facts, arch.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
}

// describeSizes says which sizes are open, and checks that those that are chosen exist.
func (m *Model) describeSizes(o onnx.Options, sizes map[string]onnx.Size) error {
	names := slices.Sorted(maps.Keys(sizes))
	for name := range o.Sizes {
		if _, ok := sizes[name]; !ok {
			return usage("--size "+name, "the models have no such size; their open sizes are %s",
				strings.Join(names, ", "))
		}
	}
	for _, name := range names {
		s := sizes[name]
		how := "--size"
		if !s.Given {
			how = fmt.Sprintf("default; choose with --size %s=MIN..MAX or --size %s=N", s.Name, s.Name)
			if s.Past {
				how = "the length of a past, which may be empty; " + how
			}
		}
		m.fact("size "+s.Name, "%d to %d (%s)", s.Min, s.Max, how)
	}
	return nil
}
