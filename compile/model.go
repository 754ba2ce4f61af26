package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	driver "github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/gguf"
	"github.com/rlx-go/rlx/models/ply"
	"github.com/rlx-go/rlx/models/splat"
	"github.com/rlx-go/rlx/models/views"
	"github.com/rlx-go/rlx/models/weights"
)

// Model is a model that is ready to compile. Close it after the last Write. It is for one goroutine at a time, with its
// Results.
type Model struct {
	Name  string // in the artifact: that of the file or, for model.safetensors and for folders, of the folder
	Arch  string // the model family; "graph" for graphs in text form
	Facts []Fact // sizes and choices, for people; the artifact has them, too
	// Unused lists the tensors of the checkpoint that no method needs.
	Unused []Unused
	// Note says why a config.json beside the checkpoint is not used. It is usually empty.
	Note string
	// Files lists the files that are read: of the checkpoint, target descriptions, and the places of config.json,
	// whether they exist or not.
	Files []string

	options    Options
	path       string
	built      *arch.Model
	targets    []driver.Target
	fallbacks  []driver.Target
	precisions []string
	custom     *custom.Library // of Options.Ops and Options.Definitions
	memory     memory
	values     *values
	adapters   map[string]ir.Type // weights of Options.LoRA
	packings   packings
	checkpoint *weights.Checkpoint // nil for graphs in text form
	sources    []format.Source     // of graphs in text form and of ONNX models
	blame      func(error) error   // gives an error of the compiler without a code that of the source
	close      func()
}

// A Fact is a line about a model, such as "image_size: 1024 (config.json)".
type Fact struct{ Name, Value string }

// An Unused is a tensor of a checkpoint that no method needs, and the reason.
type Unused struct{ Tensor, Reason string }

// IsGraph reports whether Load takes path for a file with graphs in text form: whether it ends in .txt or .rlxg.
func IsGraph(path string) bool {
	ext := filepath.Ext(path)
	return ext == ".txt" || ext == ".rlxg"
}

// Load opens a checkpoint and builds its methods; see Checkpoint. It reads the headers and the configuration, but no
// tensors.
func Load(ctx context.Context, path string, o Options) (*Model, error) {
	m := &Model{options: o, path: path, memory: newMemory(o.Memory)}
	m.Files = append(targetFiles(slices.Concat(o.Targets, o.Fallbacks)), o.Ops...)
	if err := m.choose(); err != nil {
		return nil, err
	}
	load := m.loadCheckpoint
	switch {
	case IsGraph(path):
		load = m.loadGraphs
	case IsONNX(path):
		load = m.loadONNX
	}
	err := load(ctx)
	if err == nil && (IsGraph(path) || IsONNX(path)) {
		err = m.quantizeProducts()
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	m.Arch = m.built.Arch
	for _, f := range m.built.Facts {
		m.Facts = append(m.Facts, Fact(f))
	}
	for _, u := range m.built.Skipped {
		m.Unused = append(m.Unused, Unused(u))
	}
	if err := m.checkMutable(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close closes the checkpoint.
func (m *Model) Close() {
	if m.close != nil {
		m.close()
	}
}

// choose checks the options that apply to any model.
func (m *Model) choose() (err error) {
	o := &m.options
	if err := o.check(m.path); err != nil {
		return err
	}
	if m.targets, err = chooseTargets(o.Targets); err != nil {
		return err
	}
	for _, name := range o.Fallbacks {
		t, err := chooseTarget(name)
		if err != nil {
			return err
		}
		m.fallbacks = append(m.fallbacks, t)
	}
	if m.custom, err = readOps(o.Ops, o.Definitions); err != nil {
		return err
	}
	m.precisions, err = choosePrecisions(o.Precisions)
	return err
}

// maxStages bounds Options.Stages.
const maxStages = 64

func (o *Options) checkStages() error {
	switch {
	case o.Stages < 0 || o.Stages > maxStages:
		return usage("--stages", "is %d; allowed are 1 to %d", o.Stages, maxStages)
	case o.Stages > 1 && len(o.Fallbacks) > 0:
		return usage("--stages", "cannot be combined with --fallback: the parts of a method are all for one backend")
	}
	return nil
}

// check checks the values of options that are one of a few, and that no option is given that does not apply to path.
func (o *Options) check(path string) error {
	for _, x := range []struct {
		flag, value string
		allowed     []string
	}{
		{"dtype", o.DType, []string{"keep", "f32", "f16", "bf16"}},
		{"quantize", o.Quantize, append([]string{"none"}, weights.Quantizations()...)},
		{"activations", o.Activations, []string{op.ActivationsF32, op.ActivationsQ8}},
		{"stop-after", o.StopAfter, pass.Names()},
	} {
		if x.value != "" && !slices.Contains(x.allowed, x.value) {
			return usage("--"+x.flag, "%q is unknown; allowed are %s", x.value, strings.Join(x.allowed, ", "))
		}
	}
	if err := o.checkStages(); err != nil {
		return err
	}
	graph, model := IsGraph(path), IsONNX(path)
	for _, x := range []struct {
		flag  string
		given bool
	}{
		{"arch", o.Arch != ""}, {"model-config", o.Config != ""}, {"batch", o.Batch != 0}, {"cache", o.Cache != 0},
		{"context", o.Context != 0},
		{"lora", o.LoRA != 0}, {"train", o.Train.Mode != ""},
		{"set", len(o.Set) > 0}, {"dtype", o.DType != ""},
	} {
		if (graph || model) && x.given {
			kind := "a graph in text form"
			if model {
				kind = "an ONNX model"
			}
			return usage("--"+x.flag, "applies to checkpoints only; %s is %s", path, kind)
		}
	}
	for _, x := range []struct {
		flag  string
		given bool
	}{{"weights", o.Weights != ""}, {"size", len(o.Sizes)+len(o.Ranges) > 0 && !model}} {
		if !graph && x.given {
			return usage("--"+x.flag, "applies to graphs in text form only (.txt or .rlxg); %s is a checkpoint", path)
		}
	}
	if !model && len(o.Values) > 0 {
		return usage("--value", "applies to ONNX models only (.onnx)")
	}
	if !model && len(o.Methods) > 0 {
		return usage("--method-name", "applies to ONNX models only (.onnx)")
	}
	for _, other := range o.Models {
		if !model || !IsONNX(other) {
			return usage("compile", "takes several ONNX models (.onnx), or one other file; found %s and %s", path, other)
		}
	}
	if n := 1 + len(o.Models); len(o.Methods) > 0 && len(o.Methods) != n {
		return usage("--method-name", "is given %d times; want a name for each of %d models", len(o.Methods), n)
	}
	return nil
}

func usage(subject, msg string, args ...any) *diag.Error {
	return diag.New(diag.Usage, subject, msg, args...)
}

// choosePrecisions checks the precisions that runs may choose. The first is the default.
func choosePrecisions(names []string) ([]string, error) {
	all := device.Precisions()
	if len(names) == 0 {
		return device.UsualPrecisions(), nil
	}
	var out []string
	for _, n := range names {
		if !slices.Contains(all, n) {
			return nil, usage("--precision", "%q is unknown; allowed are %s", n, strings.Join(all, ", "))
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

func (m *Model) loadCheckpoint(ctx context.Context) error {
	open := weights.Open
	switch {
	case gguf.Is(m.path):
		open = gguf.Open
	case ply.Is(m.path):
		open = ply.Open
	case views.Is(m.path) || strings.HasPrefix(m.options.Train.Mode, "splats") && views.MayBe(m.path):
		if m.options.Train.Mode == "" {
			return usage(m.path, "is a folder of images with cameras, which is for training").
				WithHint("rlxc %s --train splats=5000 -o fit.rlx", m.path)
		}
		fit, err := splat.ParseFit(m.options.Train.Mode)
		if err != nil {
			return err
		}
		first := cmp.Or(fit.Begin, fit.Splats)
		if err := m.memory.Reserve("the splats to begin with", views.Bytes(first, fit.Degree)); err != nil {
			return aboutSource(m.path, err)
		}
		open = func(path string) (*weights.Checkpoint, error) { return views.Open(path, first, fit.Degree) }
	}
	ckpt, err := ctxio.Do(ctx, "open", func() (*weights.Checkpoint, error) { return open(m.path) },
		func(c *weights.Checkpoint) { c.Close() })
	if err != nil {
		return err
	}
	m.checkpoint, m.close = ckpt, func() { ckpt.Close() }
	m.Name = modelName(m.path)
	m.Files = append(append(sourcePaths(ckpt), configBeside(m.path)), m.Files...)
	if m.options.Config != "" {
		m.Files = append(m.Files, m.options.Config)
	}
	m.blame = badSizes(m.path)

	if err := m.options.checkTraining(); err != nil {
		return err
	}
	stored := weights.Stored{Checkpoint: ckpt}
	stored.DType, _ = dtype.Parse(m.options.DType)
	if m.options.quantizes() {
		stored.Packed, stored.Packings = weights.Quantize(ckpt, m.options.Quantize), m.packings.add
		if len(stored.Packed) == 0 {
			return usage("--quantize "+m.options.Quantize,
				"the checkpoint has no matrices whose rows are whole blocks").
				WithHint("leave the flag out")
		}
	}
	m.built, err = ctxio.Do(ctx, "build", func() (*arch.Model, error) { return m.build(stored) }, nil)
	if err != nil {
		return err
	}
	if err := m.addLoRA(); err != nil {
		return err
	}
	if err := m.addTraining(); err != nil {
		return err
	}
	m.values = &values{stored: stored, source: map[string]string{}, infinite: map[string]int64{}, zero: m.adapters}
	for _, p := range m.built.Params {
		m.values.source[p.Name] = p.Source
	}
	return nil
}

// badSizes returns a function that converts an error of the compiler without a code to one about the checkpoint: its
// tensors determine a size that exceeds a limit of the IR or of the file format.
func badSizes(path string) func(error) error {
	return func(err error) error {
		return diag.New(code.ModelTensor, path, "the sizes of its tensors cannot be compiled: %w", err)
	}
}

func (o *Options) quantizes() bool { return o.Quantize != "" && o.Quantize != "none" }

// build recognises the architecture and builds its graphs.
func (m *Model) build(stored weights.Stored) (*arch.Model, error) {
	found, configErr := m.findConfig(stored)
	family, err := arch.Find(cmp.Or(m.options.Arch, "auto"), stored, m.path, found.kind)
	if err != nil {
		return nil, err
	}
	if configErr != nil {
		return nil, configErr
	}
	cfg, err := m.config(found, family)
	if err != nil {
		return nil, err
	}
	for _, s := range m.options.Set {
		if err := cfg.Set(s, family.Keys); err != nil {
			return nil, err
		}
	}
	if m.options.quantizes() && family.Keys["context"] == "" {
		return nil, usage("--quantize "+m.options.Quantize, "architecture %s is not a language model", family.Name).
			WithHint("leave the flag out")
	}
	if m.options.LoRA != 0 && family.Keys["context"] == "" {
		return nil, usage(fmt.Sprintf("--lora %d", m.options.LoRA), "architecture %s is not a language model",
			family.Name).WithHint("leave the flag out")
	}
	for _, k := range []struct {
		key   string
		value int
	}{{"batch", m.options.Batch}, {"cache", m.options.Cache}, {"context", m.options.Context}} {
		switch {
		case k.value == 0:
		case k.value < 0:
			return nil, usage("--"+k.key, "is %d; allowed are 1 and more", k.value)
		case !cfg.SetFlag(k.key, k.value, family.Keys):
			return nil, usage("--"+k.key, "architecture %s has no %s", family.Name, k.key)
		}
	}
	cfg.Files = filesBeside(stored, m.path)
	return family.Build(stored, cfg)
}

// A foundConfig is a configuration before the family is known.
type foundConfig struct {
	arch.Config
	origin string // a file that may belong to another checkpoint, or empty
	kind   string // its model_type
	typed  bool   // it has one
}

// findConfig reads the configuration: Options.Config, or what the checkpoint itself says, or config.json beside it.
func (m *Model) findConfig(stored weights.Stored) (c foundConfig, err error) {
	c.origin = m.options.Config
	if c.origin == "" && stored.OwnsFiles() {
		text, _ := stored.Own("config.json")
		return c, c.Decode(text, m.path)
	}
	if c.origin == "" {
		beside := configBeside(m.path)
		if _, err := os.Stat(beside); errors.Is(err, fs.ErrNotExist) {
			return c, nil
		}
		c.origin = beside
	}
	if err = c.Load(c.origin); err == nil {
		c.kind, c.typed, err = c.String("model_type")
	}
	return c, err
}

// config returns what applies to the family: nothing, if a file beside the checkpoint describes another model.
func (m *Model) config(c foundConfig, family arch.Architecture) (arch.Config, error) {
	switch {
	case !c.typed || family.Builds(c.kind):
		return c.Config, nil
	case m.options.Config != "":
		return c.Config, diag.New(code.ModelConfig, c.origin, "describes a %q; the checkpoint is recognised as %q",
			c.kind, family.Name).
			WithHint("give the configuration that belongs to the checkpoint, or choose the family with --arch")
	case len(family.Types) > 0: // the family needs a configuration
		return c.Config, diag.New(code.ModelConfig, c.origin,
			"model_type is %q, which is not supported; architecture %s is built for %s",
			c.kind, family.Name, strings.Join(family.Types, ", ")).
			WithHint("if the arithmetic is that of one of these, make a configuration that says so " +
				"and give it with --model-config")
	}
	m.Note = fmt.Sprintf("%s describes a %q and is not used", c.origin, c.kind)
	return arch.Config{}, nil
}

// attachments returns the model's attachments as weights.
func attachments(m *arch.Model) (out []driver.Weight) {
	for _, a := range m.Attachments {
		out = append(out, driver.Weight{Name: a.Name, Type: ir.TypeOf(dtype.U8, int64(len(a.Data))), Data: a.Data})
	}
	return out
}
