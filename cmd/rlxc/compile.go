package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/gguf"
	"github.com/rlx-go/rlx/models/weights"
)

type compileFlags struct {
	output, arch, config, stopAfter, report string
	weights                                 string // weights of a graph in text form
	memory                                  string
	seed                                    uint64
	check                                   bool
	dtype, quantize, activations            cli.Choice
	batch, context                          int
	targets, fallbacks, precisions          []string
	set, dump                               cli.List
	gaps                                    bool
}

func compileCommand() *cli.Command {
	return &cli.Command{
		Name: "compile", Args: "CHECKPOINT -o OUT.rlx [flags]", Short: "compile a checkpoint to an artifact",
		Long: "Compiles a checkpoint to an artifact. CHECKPOINT is a .safetensors file, the index of a sharded one, a folder with either, or a .gguf file (of a split one, " +
			"the first part). rlxc recognises the architecture from tensor names and shapes. Values that shapes do not determine come from a config.json beside the " +
			"checkpoint, --model-config or --set; later ones override earlier ones. A file that ends in .txt or .rlxg holds graphs in text form instead, as --dump prints " +
			"them; each becomes a method. Use one to try an op by hand.",
		Examples: []cli.Example{
			{About: "compile a checkpoint", Line: "rlxc sam.safetensors -o sam.rlx"},
			{About: "set a value that shapes do not determine", Line: "rlxc model.safetensors --set mask_decoder_config.num_attention_heads=2 -o sam.rlx"},
			{About: "a language model from a Hugging Face folder", Line: "rlxc llama-3.2-1b/ --context 8192 -o llama.rlx"},
			{About: "a language model from a GGUF file", Line: "rlxc llama-3.2-1b-f16.gguf -o llama.rlx"},
			{About: "halve the size: round weights to f16", Line: "rlxc sam.safetensors --dtype f16 -o sam.rlx"},
			{About: "a language model with about 5 bits per weight", Line: "rlxc llama-3.2-1b/ --quantize q4_k_m -o llama.rlx"},
			{About: "require AVX-512: the cpu backend refuses to run it on lesser processors", Line: "rlxc sam.safetensors --target cpu:x86-64-v4 -o sam.rlx"},
			{About: "for your own backend, described by rlxrun plugins describe", Line: "rlxc sam.safetensors --target cpu,./npu.target -o sam.rlx"},
			{About: "all that a backend lacks to run a model, and the rules that would do", Line: "rlxc sam.safetensors --target ./npu.target --gaps"},
			{About: "on the GPU; ops that wgpu lacks run on the processor", Line: "rlxc model.safetensors --target wgpu --fallback cpu -o model.rlx"},
			{About: "a graph written by hand, run on generated inputs and compared with the reference", Line: "rlxc softmax.txt -o softmax.rlx && rlxrun softmax.rlx --random 1 --check"},
			{About: "print the graph after a pass", Line: "rlxc sam.safetensors -o sam.rlx --stop-after fuse-grid-attention --dump fuse-grid-attention=-"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f compileFlags
			fs.StringVarP(&f.output, "output", "o", "", "`FILE` artifact to write (default the checkpoint's name with .rlx, in the current directory)")
			fs.Group("Model")
			fs.StringVar(&f.arch, "arch", "auto", "`NAME` architecture; auto recognises it from the checkpoint")
			fs.StringVar(&f.config, "model-config", "", "`FILE` the model's Transformers config.json")
			fs.IntVar(&f.batch, "batch", 0, "`N` language models: sequences that one run can continue; SAM: images that encode_batch takes (default 1)")
			fs.IntVar(&f.context, "context", 0, "`TOKENS` language models: how many tokens the caches hold (default what the model was made for, at most 4096)")
			fs.ListVarP(&f.set, "set", "", "`KEY=VALUE` set a configuration value (repeatable)")
			fs.ChoiceVar(&f.dtype, "dtype", "element type of stored weights", "keep", "f32", "f16", "bf16")
			fs.ChoiceVar(&f.quantize, "quantize", "language models: store matrices in blocks of few bits (q4_k_m mixes q4_k and q6_k)", append([]string{"none"}, weights.Quantizations()...)...)
			fs.ChoiceVar(&f.activations, "activations", "activations of products with quantized weights: f32 keeps them; q8 rounds each group of 32 to 8 bits, which is faster for prompts. Targets without q8 kernels keep f32", op.ActivationsF32, op.ActivationsQ8)
			fs.Group("A graph in text form")
			fs.StringVar(&f.weights, "weights", "", "`FILE` a safetensors file with the graph's params, by name and in their types; a packed type is U8 there, its blocks along the last axis (default generated)")
			fs.Uint64Var(&f.seed, "seed", 1, "`N` seed of the generated params")
			fs.Group("Compiler")
			fs.StringSliceVar(&f.targets, "target", nil, "`NAME|FILE,...` targets to compile for: "+strings.Join(compile.TargetNames(), ", ")+", or target description files such as ./npu.target (default cpu,wgpu). With a level such as x86-64-v4 the cpu backend refuses lesser processors; it chooses kernels for the processor either way")
			fs.StringSliceVar(&f.fallbacks, "fallback", nil, "`NAME|FILE,...` backends that run the ops that a target lacks; the first that can runs the op. Without it such an op is an error")
			fs.BoolVar(&f.gaps, "gaps", false, "write nothing; list all ops and element types that each target lacks, why, and the lines of a target description with which it would run the model. Status 7 if there are any")
			fs.StringSliceVar(&f.precisions, "precision", nil, "`NAME,...` precisions that a run may choose for the operands of products; the first is the run's default (default "+strings.Join(device.Precisions(), ",")+")")
			fs.ListVarP(&f.dump, "dump", "", "`PHASE=PATH` write the graphs after a phase as text; - is stdout (repeatable)")
			fs.StringVar(&f.stopAfter, "stop-after", "", "`PASS` stop after this pass: "+strings.Join(pass.Names(), ", "))
			fs.BoolVar(&f.check, "check", false, "compare every value of the compiled methods with the model's graph, by the reference, on generated inputs of the smallest sizes (very slow for large models)")
			fs.StringVar(&f.memory, "memory", "", "`SIZE` refuse to compile if more memory is needed, such as 300M or 2Gi (default what is free)")
			fs.StringVar(&f.report, "report", "", "`PATH` for each target, write which ops were fused, rewritten or left to the reference, and why fusions were missed; - is stdout")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				for _, name := range []string{"output", "target", "fallback", "precision"} {
					if fl := fs.Lookup(name); fl.Changed && (fl.Value.String() == "" || fl.Value.String() == "[]") {
						return cli.Usagef("--"+name, "its value is empty").WithHint("leave the flag out for the default")
					}
				}
				if len(args) != 1 {
					return cli.Usagef("compile", "takes one checkpoint; found %d arguments", len(args)).WithHint("try: rlxc model.safetensors -o model.rlx")
				}
				for _, name := range []string{"output", "fallback", "precision", "dump", "stop-after", "report"} {
					if f.gaps && fs.Lookup(name).Changed {
						return cli.Usagef("--"+name, "does not go with --gaps, which compiles nothing")
					}
				}
				graph := isGraph(args[0])
				for _, name := range []string{"batch", "context"} {
					if n, _ := fs.GetInt(name); fs.Lookup(name).Changed && n < 1 {
						return cli.Usagef("--"+name, "is %d; allowed are 1 and more", n).WithHint("without the flag, the default applies")
					}
				}
				for _, name := range []string{"arch", "model-config", "batch", "context", "set", "dtype", "quantize"} {
					if graph && fs.Lookup(name).Changed {
						return cli.Usagef("--"+name, "applies to checkpoints only; %s is a graph in text form", args[0])
					}
				}
				for _, name := range []string{"weights", "seed"} {
					if !graph && fs.Lookup(name).Changed {
						return cli.Usagef("--"+name, "applies to graphs in text form only (.txt or .rlxg); %s is a checkpoint", args[0])
					}
				}
				if graph {
					return compileGraphs(ctx, env, args[0], f)
				}
				return runCompile(ctx, env, args[0], f)
			}
		},
	}
}

// phases are the names that --dump and --stop-after accept.
func phases() []string { return append([]string{"in"}, pass.Names()...) }

// choosePrecisions checks the precisions that runs may choose. The first is the default.
func choosePrecisions(names []string) ([]string, error) {
	all := device.Precisions()
	if len(names) == 0 {
		return all, nil
	}
	var out []string
	for _, n := range names {
		if !slices.Contains(all, n) {
			return nil, cli.Usagef("--precision", "%q is unknown; allowed are %s", n, strings.Join(all, ", "))
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

// choices has the checked values of flags that apply to any model.
type choices struct {
	targets    []compile.Target
	fallbacks  []compile.Target
	precisions []string
	dumps      *dumpSet
}

func (f *compileFlags) choose() (c choices, err error) {
	if c.targets, err = chooseTargets(f.targets); err != nil {
		return c, err
	}
	for _, name := range f.fallbacks {
		t, err := chooseTarget(name)
		if err != nil {
			return c, err
		}
		c.fallbacks = append(c.fallbacks, t)
	}
	if c.precisions, err = choosePrecisions(f.precisions); err != nil {
		return c, err
	}
	c.dumps, err = parseDumps(f.dump.Values, f.stopAfter)
	return c, err
}

func runCompile(ctx context.Context, env *cli.Env, src string, f compileFlags) error {
	start := time.Now()
	chosen, err := f.choose()
	if err != nil {
		return err
	}
	open := weights.Open
	if gguf.Is(src) {
		open = gguf.Open
	}
	memory, err := newMemory(f.memory)
	if err != nil {
		return err
	}
	ckpt, err := ctxio.Do(ctx, "open", func() (*weights.Checkpoint, error) { return open(src) }, func(c *weights.Checkpoint) { c.Close() })
	if err != nil {
		return err
	}
	defer ckpt.Close()
	if f.output == "" {
		f.output = modelName(src) + ".rlx"
	}
	inputs := append(append(sourcePaths(ckpt), configBeside(src)), targetFiles(slices.Concat(f.targets, f.fallbacks))...)
	if f.config != "" {
		inputs = append(inputs, f.config)
	}
	if err := checkOutputs(ctx, outputsOf(f, chosen.dumps), inputs); err != nil {
		return err
	}
	stored := weights.Stored{Checkpoint: ckpt}
	stored.DType, _ = dtype.Parse(f.dtype.Value)
	var packings packings
	if f.quantize.Value != "none" {
		stored.Packed, stored.Packings = weights.Quantize(ckpt, f.quantize.Value), packings.add
		if len(stored.Packed) == 0 {
			return cli.Usagef("--quantize "+f.quantize.Value, "the checkpoint has no matrices whose rows are whole blocks").WithHint("leave the flag out")
		}
	}
	var cfgNote string
	model, err := ctxio.Do(ctx, "build", func() (m *arch.Model, err error) {
		m, cfgNote, err = build(stored, src, f)
		return m, err
	}, nil)
	if err != nil {
		return err
	}
	digests := startDigests(ctx, ckpt)
	vals := &values{stored: stored, source: map[string]string{}, infinite: map[string]int64{}}
	for _, p := range model.Params {
		vals.source[p.Name] = p.Source
	}
	j := job{src: src, memory: memory, compiled: compiled{start: start, model: model, config: cfgNote, stored: stored}, choices: chosen, values: vals,
		meta: format.Meta{Model: modelName(src), Task: model.Task, Sources: digests.files}, sources: func() ([]format.Source, error) { return digests.wait(ctx) },
		blame: func(err error) error { return badSizes(src, err) }}
	for _, fact := range model.Facts {
		j.meta.Pairs = append(j.meta.Pairs, format.Pair{Key: fact.Name, Value: fact.Value})
	}
	slices.SortFunc(j.meta.Pairs, func(x, y format.Pair) int { return strings.Compare(x.Key, y.Key) })
	err = j.compile(ctx, env, f)
	if err != nil || f.stopAfter != "" || f.gaps {
		return err
	}
	j.packed = packings.list
	return reportCompiled(env, j.compiled)
}

// job is a model to compile and write. compile sets the outcome in compiled.
type job struct {
	compiled
	choices
	src     string
	memory  memory
	values  *values
	meta    format.Meta
	sources func() ([]format.Source, error) // see format.Artifact
	blame   func(error) error               // gives an error of the compiler without a code the code of the source
}

// compile compiles the model and writes the dumps, the report and, unless a flag stops it earlier, the artifact.
func (j *job) compile(ctx context.Context, env *cli.Env, f compileFlags) (err error) {
	if len(f.targets) == 0 {
		j.targets = takePacked(j.targets, j.model.Methods)
	}
	if f.gaps {
		return j.reportGaps(ctx, env, f)
	}
	j.result, err = ctxio.Do(ctx, "compile", func() (*compile.Result, error) {
		return compile.Compile(ctx, j.model.Methods, compile.Options{Targets: j.targets, Fallbacks: j.fallbacks, StopAfter: f.stopAfter,
			Activations: f.activations.Value, Dump: j.dumps.graph, Layout: layout, Params: j.values, Attach: attachments(j.model), Memory: j.memory})
	}, nil)
	err = aboutSource(j.src, err)
	if err = withCode(ctx, err, j.blame); err == nil {
		err = j.dumps.flush(ctx, env)
	}
	if err == nil && f.report != "" {
		err = writeReport(ctx, env, f.report, j.result.Reports)
	}
	if err != nil || f.stopAfter != "" {
		return err
	}
	if f.check {
		skipped, err := compile.CheckSource(ctx, j.model.Methods, compile.Options{Targets: j.targets, Params: j.values})
		if err != nil {
			return err
		}
		for _, why := range skipped {
			env.Notef("  %-14s %s", "not checked", why)
		}
	}
	j.meta.Producer, j.meta.Opset = format.Producer{Name: "rlxc", Version: cli.Release}, format.Opset
	j.meta.Architecture, j.meta.Precisions = j.model.Arch, j.precisions
	for _, g := range j.model.Methods {
		j.meta.Methods = append(j.meta.Methods, format.MethodOf(g.Name, g))
	}
	j.values.bar = env.Progress("writing", j.result.WeightsSize)
	j.path, j.infinite = f.output, j.values.infinite
	j.info, err = format.Write(ctx, f.output, format.Artifact{Programs: j.result.Programs, Splits: j.result.Splits, Meta: j.meta, Sources: j.sources}, weightWriter(j.result.Weights, j.values))
	j.values.bar.Clear()
	return err
}

// withCode passes an error of the compiler that has no code to blame, unless ctx has ended or the error is a bug of ours.
func withCode(ctx context.Context, err error, blame func(error) error) error {
	if _, coded := diag.CodeOf(err); err == nil || coded || ctx.Err() != nil || strings.Contains(err.Error(), "BUG:") {
		return err
	}
	return blame(err)
}

// badSizes converts an error of the compiler without a code to one about the checkpoint: its tensors determine a size that exceeds a limit of the IR
// or of the file format.
func badSizes(src string, err error) error {
	return diag.New(arch.ErrTensor, src, "the sizes of its tensors cannot be compiled: %w", err)
}

// modelName returns the checkpoint's name without folder and extension. For model.safetensors and for folders it returns the folder's name.
func modelName(src string) string {
	abs, err := filepath.Abs(src)
	if err != nil {
		abs = src
	}
	name := filepath.Base(abs)
	if ext := filepath.Ext(name); ext == ".safetensors" || ext == ".json" || ext == ".gguf" {
		name = strings.TrimSuffix(strings.TrimSuffix(name, ext), ".safetensors.index")
	}
	if name == "model" {
		name = filepath.Base(filepath.Dir(abs))
	}
	return name
}

// configBeside returns the path of the checkpoint's config.json, or "" if there is none.
func configBeside(src string) string {
	if st, err := os.Stat(src); err == nil && st.IsDir() {
		return filepath.Join(src, "config.json")
	}
	return filepath.Join(filepath.Dir(src), "config.json")
}

// build recognises the architecture and builds its graphs.
func build(stored weights.Stored, src string, f compileFlags) (m *arch.Model, note string, err error) {
	family, err := arch.Find(f.arch, stored, src)
	if err != nil {
		return nil, "", err
	}
	var cfg arch.Config
	beside := configBeside(src)
	files := func(name string, most int64) ([]byte, error) {
		return regular.ReadFile(filepath.Join(filepath.Dir(beside), name), most)
	}
	if stored.OwnsFiles() {
		files = func(name string, _ int64) ([]byte, error) {
			if data, ok := stored.Own(name); ok {
				return data, nil
			}
			return nil, fs.ErrNotExist
		}
	}
	switch _, err := os.Stat(beside); {
	case f.config != "":
		if err := cfg.Load(f.config); err != nil {
			return nil, "", err
		}
		if kind, ok, err := cfg.String("model_type"); err != nil {
			return nil, "", err
		} else if ok && !family.Builds(kind) {
			return nil, "", diag.New(arch.ErrConfig, f.config, "describes a %q; the checkpoint is recognised as %q", kind, family.Name).
				WithHint("give the configuration that belongs to the checkpoint, or choose the family with --arch")
		}
	case stored.OwnsFiles():
		text, _ := stored.Own("config.json")
		if err := cfg.Decode(text, src); err != nil {
			return nil, "", err
		}
	case !errors.Is(err, fs.ErrNotExist):
		var own arch.Config
		if err := own.Load(beside); err != nil {
			return nil, "", err
		}
		switch kind, ok, err := own.String("model_type"); {
		case err != nil:
			return nil, "", err
		case ok && len(family.Types) > 0 && !family.Builds(kind): // the family needs a configuration
			return nil, "", diag.New(arch.ErrConfig, beside, "model_type is %q, which is not supported; architecture %s is built for %s", kind, family.Name, strings.Join(family.Types, ", ")).
				WithHint("if the arithmetic is that of one of these, make a configuration that says so and give it with --model-config")
		case ok && !family.Builds(kind):
			note = fmt.Sprintf("%s describes a %q and is not used", beside, kind)
		default:
			cfg = own
		}
	}
	for _, s := range f.set.Values {
		if err := cfg.Set(s, family.Keys); err != nil {
			return nil, "", err
		}
	}
	if f.quantize.Value != "none" && family.Keys["context"] == "" {
		return nil, "", diag.New(diag.Usage, "--quantize "+f.quantize.Value, "architecture %s is not a language model", family.Name).WithHint("leave the flag out")
	}
	for _, k := range []struct {
		key   string
		value int
	}{{"batch", f.batch}, {"context", f.context}} {
		if k.value == 0 {
			continue
		}
		if !cfg.SetFlag(k.key, k.value, family.Keys) {
			return nil, "", diag.New(diag.Usage, "--"+k.key, "architecture %s has no %s", family.Name, k.key)
		}
	}
	cfg.Files = files
	m, err = family.Build(stored, cfg)
	return m, note, err
}

// attachments returns the model's attachments as weights.
func attachments(m *arch.Model) (out []compile.Weight) {
	for _, a := range m.Attachments {
		out = append(out, compile.Weight{Name: a.Name, Type: ir.TypeOf(dtype.U8, int64(len(a.Data))), Data: a.Data})
	}
	return out
}

// compiled describes the result of a compilation.
type compiled struct {
	start  time.Time
	path   string
	info   format.Info
	model  *arch.Model
	config string
	result *compile.Result
	// infinite counts values that are too large for --dtype, by tensor of the checkpoint.
	infinite map[string]int64
	packed   []weights.Packing // with --quantize
	stored   weights.Stored
}

func reportCompiled(env *cli.Env, c compiled) error {
	type target struct {
		Method     string  `json:"method"`
		Target     string  `json:"target"`
		Steps      int     `json:"steps"`
		ArenaBytes int64   `json:"arena_bytes"`
		PeakBytes  int64   `json:"peak_bytes"`
		Reuse      float64 `json:"reuse"`
		Fused      int     `json:"fusions"`
		Missed     int     `json:"missed_fusions"`
		// Ops that the target does not run natively, each with the number of its nodes.
		Rewritten map[string]int `json:"rewritten"`
		Reference map[string]int `json:"reference"`
		// For a method that several backends run in turn: the backends, how often execution moves from one to another, and what is copied between them at
		// the largest sizes.
		Backends      []string       `json:"backends,omitempty"`
		Elsewhere     map[string]int `json:"elsewhere,omitempty"`
		CrossingBytes int64          `json:"crossing_bytes,omitempty"`

		split *program.Split
	}
	var targets []target
	for _, r := range c.result.Reports {
		t := target{Method: r.Method, Target: r.Target, Rewritten: map[string]int{}, Reference: map[string]int{}, split: r.Split}
		var naive int64
		for k, x := range r.Segments {
			missed := len(x.Passes.Missed())
			t.Fused, t.Missed = t.Fused+len(x.Passes.Sites)-missed, t.Missed+missed
			t.ArenaBytes, t.PeakBytes, naive = t.ArenaBytes+x.Plan.Arena, max(t.PeakBytes, x.Plan.Peak), naive+x.Plan.Naive
			s := r.Split.Segments[k]
			t.Steps += len(s.Steps)
			addCounts(t.Rewritten, s.Rewritten)
			addCounts(t.Reference, s.Reference)
			if r.Split.InPieces() {
				if t.Elsewhere == nil {
					t.Elsewhere = map[string]int{}
				}
				t.Backends = append(t.Backends, s.Target)
				addCounts(t.Elsewhere, s.Lacked)
				addCounts(t.Elsewhere, s.Moved)
			}
		}
		t.CrossingBytes = r.Split.CrossingBytes()
		t.Reuse = plan.Report{Arena: t.ArenaBytes, Naive: naive}.Reuse()
		targets = append(targets, t)
	}
	if env.JSON {
		facts := map[string]string{}
		for _, f := range c.model.Facts {
			facts[f.Name] = f.Value
		}
		unused, because := []string{}, map[string]string{}
		for _, u := range c.model.Skipped {
			unused, because[u.Tensor] = append(unused, u.Tensor), u.Reason
		}
		return env.WriteJSON(map[string]any{
			"output": c.path, "bytes": c.info.Size, "root": "sha256:" + hex.EncodeToString(c.info.Root[:]), "architecture": c.model.Arch, "facts": facts,
			"programs": targets, "weights": len(c.result.Weights), "weights_bytes": c.result.WeightsSize, "unused_tensors": unused, "unused_because": because, "became_infinite": c.infinite,
			"quantized": packedRows(c.packed), "seconds": time.Since(c.start).Seconds(),
		})
	}
	if c.config != "" {
		env.Notef("%s", c.config)
	}
	env.Notef("recognised %s", c.model.Arch)
	for _, f := range c.model.Facts {
		env.Notef("  %-14s %s", f.Name, f.Value)
	}
	noteUnused(env, c.model.Skipped)
	for _, name := range slices.Sorted(maps.Keys(c.infinite)) {
		env.Notef("  %-14s %s of %s became infinite: too large for the type chosen with --dtype", "warning", cli.Count(c.infinite[name], "value", "values"), name)
	}
	notePackings(env, c.packed, c.stored)
	width := 14
	for _, t := range targets {
		width = max(width, len(t.Method+"/"+t.Target))
	}
	for _, t := range targets {
		lowering := t.split.Lowering()
		if lowering != "" {
			lowering = "; " + lowering
		}
		if t.split.InPieces() {
			lowering += fmt.Sprintf("; %s between %s, copying %s of up to %s", cli.Count(len(t.Backends)-1, "switch", "switches"), strings.Join(t.split.Backends(), " and "),
				cli.Count(len(t.split.Crossings()), "value", "values"), cli.Size(t.CrossingBytes))
		}
		env.Notef("  %-*s %s, arena %s, %.1fx reuse%s", width, t.Method+"/"+t.Target, cli.Count(t.Steps, "step", "steps"), cli.Size(t.ArenaBytes), t.Reuse, lowering)
	}
	env.Notef("%s: %s, %s, %.2f s", c.path, cli.Size(c.info.Size), cli.Count(len(c.result.Weights), "weight", "weights"), time.Since(c.start).Seconds())
	return nil
}

// noteUnused prints how many tensors no method needs, per reason.
func noteUnused(env *cli.Env, list []arch.Unused) {
	by := map[string][]string{}
	for _, u := range list {
		by[u.Reason] = append(by[u.Reason], u.Tensor)
	}
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		env.Notef("  %-14s %s, such as %s (%s)", "not used", cli.Count(len(by[reason]), "tensor", "tensors"), by[reason][0], reason)
	}
}

// countsOf converts op counts for JSON.
func countsOf(list []program.OpCount) map[string]int {
	m := map[string]int{}
	addCounts(m, list)
	return m
}

func addCounts(m map[string]int, list []program.OpCount) {
	for _, c := range list {
		m[c.Op] += c.Count
	}
}
