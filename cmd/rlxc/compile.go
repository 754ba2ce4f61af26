package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlx-go/rlx/compile"
	driver "github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/units"
	"github.com/rlx-go/rlx/models/weights"
)

type compileFlags struct {
	output, arch, config, stopAfter, report string
	weights                                 string // weights of a graph in text form
	memory                                  string
	seed                                    uint64
	check                                   bool
	dtype, quantize, activations            cli.Choice
	batch, cache, context, lora, stages     int
	targets, fallbacks, precisions          []string
	train                                   compile.TrainOptions
	set, dump, sizes, values, mutable, ops  cli.List
	methods                                 cli.List
	models                                  []string // ONNX models after the first
	gaps                                    bool
}

func compileCommand() *cli.Command {
	return &cli.Command{
		Name: "compile", Args: "CHECKPOINT... -o OUT.rlx [flags]", Short: "compile a checkpoint to an artifact",
		Long: "Compiles a checkpoint to an artifact. CHECKPOINT is a .safetensors file, the index of a sharded one, a folder with either, a .gguf file (of a split one, " +
			"the first part), or a .ply file of Gaussian splats. rlxc recognises the architecture from tensor names and shapes. Values that shapes do not determine come from a config.json beside the " +
			"checkpoint, --model-config or --set; later ones override earlier ones. A file that ends in .txt or .rlxg holds graphs in text form instead, as --dump prints " +
			"them; each becomes a method. Use one to try an op by hand. A file that ends in .onnx is an ONNX model; several become the methods of one artifact and share weights with equal bytes.",
		Examples: []cli.Example{
			{About: "compile a checkpoint", Line: "rlxc sam.safetensors -o sam.rlx"},
			{About: "set a value that shapes do not determine",
				Line: "rlxc model.safetensors --set mask_decoder_config.num_attention_heads=2 -o sam.rlx"},
			{About: "a language model from a Hugging Face folder",
				Line: "rlxc llama-3.2-1b/ --context 8192 -o llama.rlx"},
			{About: "a language model from a GGUF file", Line: "rlxc llama-3.2-1b-f16.gguf -o llama.rlx"},
			{About: "halve the size: round weights to f16", Line: "rlxc sam.safetensors --dtype f16 -o sam.rlx"},
			{About: "a language model with about 5 bits per weight",
				Line: "rlxc llama-3.2-1b/ --quantize q4_k_m -o llama.rlx"},
			{About: "train LoRA adapters of rank 8, of 512 tokens a step (docs/training.md)",
				Line: "rlxc llama-3.2-1b/ --train lora=8 --train-tokens 512 -o train.rlx"},
			{About: "fit a scene of 5000 Gaussian splats to images with cameras (docs/splats.md)",
				Line: "rlxc images/ --train splats=5000 -o fit.rlx"},
			{About: "require AVX-512: the cpu backend refuses to run it on lesser processors",
				Line: "rlxc sam.safetensors --target cpu:x86-64-v4 -o sam.rlx"},
			{About: "for your own backend, described by rlxrun plugins describe",
				Line: "rlxc sam.safetensors --target cpu,./npu.target -o sam.rlx"},
			{About: "all that a backend lacks to run a model, and the rules that would do",
				Line: "rlxc sam.safetensors --target ./npu.target --gaps"},
			{About: "on the GPU; ops that wgpu lacks run on the processor",
				Line: "rlxc model.safetensors --target wgpu --fallback cpu -o model.rlx"},
			{About: "a graph written by hand, run on generated inputs and compared with the reference",
				Line: "rlxc softmax.txt -o softmax.rlx && rlxrun softmax.rlx --random 1 --check"},
			{About: "the same for one size", Line: "rlxc softmax.txt --size N=128 -o softmax.rlx"},
			{About: "with a fused kernel of your own backend in place of the ops that it computes",
				Line: "rlxc model.safetensors --op wave.rlxop --target ./npu.target -o model.rlx"},
			{About: "ONNX models that share weights, each a method",
				Line: "rlxc encoder.onnx decoder.onnx --size batch=1..8 -o model.rlx"},
			{About: "print the graph after a pass",
				Line: "rlxc sam.safetensors -o sam.rlx --stop-after fuse-grid-attention --dump fuse-grid-attention=-"},
		},
		Setup: func(fs *cli.FlagSet) cli.Run {
			var f compileFlags
			fs.StringVarP(&f.output, "output", "o", "",
				"`FILE` artifact to write (default the checkpoint's name with .rlx, in the current directory)")
			fs.Group("Model")
			fs.StringVar(&f.arch, "arch", "auto", "`NAME` architecture; auto recognises it from the checkpoint")
			fs.StringVar(&f.config, "model-config", "", "`FILE` the model's Transformers config.json")
			fs.IntVar(
				&f.batch, "batch", 0,
				"`N` language models: sequences that one run can continue; SAM: images that encode_batch takes (default 1)")
			fs.IntVar(
				&f.cache, "cache", 0,
				"`TOKENS` language models with --batch: how many tokens the caches of all sequences hold together, in pages that sequences share (default: --context for each sequence)")
			fs.IntVar(&f.context, "context", 0,
				"`TOKENS` language models: how many tokens the caches hold (default what the model was made for, at most 4096)")
			fs.IntVar(&f.lora, "lora", 0,
				"`RANK` language models: let runs take LoRA adapters of up to this rank (rlxrun --lora)")
			fs.ListVarP(&f.set, "set", "", "`KEY=VALUE` set a configuration value (repeatable)")
			fs.ChoiceVar(&f.dtype, "dtype", "element type of stored weights", "keep", "f32", "f16", "bf16")
			fs.ChoiceVar(
				&f.quantize, "quantize",
				"store the matrices of a language model, or the weights of the products of an ONNX model or of graphs, in blocks of few bits (q4_k_m mixes q4_k and q6_k in language models)",
				append([]string{"none"}, weights.Quantizations()...)...)
			fs.ChoiceVar(&f.activations, "activations",
				"activations of products with quantized weights: f32 keeps them; q8 rounds each group of 32 to 8 bits, which is faster. Targets without q8 kernels keep f32. auto: q8 for language models that do not train, otherwise f32",
				"auto", op.ActivationsF32, op.ActivationsQ8)
			fs.Group("Training (rlxrun train)")
			fs.StringVar(&f.train.Mode, "train", "",
				"`lora=RANK|full|splats=N|decoder` make an artifact that trains: low-rank adapters of a language model (lora=RANK,alpha=A; alpha is 2*RANK by default), or all of its weights; or a scene of N Gaussian splats, from a folder of images with cameras (splats=N,degree=D,dssim=X,begin=M; degree 0 to 3 of the harmonics, default 0; share of the structural dissimilarity in the loss, default 0.2; M splats at first, which grow to at most N) or from a .ply file (splats); or the mask decoder of a SAM (decoder)")
			fs.StringSliceVar(&f.train.Layers, "train-layers", nil,
				"`NAME,...` the linear layers that get adapters, such as q_proj,v_proj (default all but the last)")
			fs.StringVar(&f.train.Optimizer, "optimizer", "", "`adamw|sgd` (default adamw)")
			fs.IntVar(&f.train.Batch, "train-batch", 0, "`N` sequences in each step, or prompts for a mask decoder (default 1)")
			fs.IntVar(&f.train.Tokens, "train-tokens", 0,
				"`N` tokens of each sequence that are predicted (default 256, or what the model was made for)")
			fs.BoolVar(&f.train.Checkpoint, "checkpoint", false,
				"keep only the result of each layer for the gradients, and compute the rest again: less memory, slower steps, the same result")
			fs.Group("A graph in text form, or an ONNX model")
			fs.StringVar(&f.weights, "weights", "",
				"`FILE` a safetensors file with the graph's params, by name and in their types; a packed type is U8 there, its blocks along the last axis (default generated)")
			fs.Uint64Var(&f.seed, "seed", 1, "`N` seed of the generated params")
			fs.ListVarP(&f.sizes, "size", "",
				"`SYMBOL=N|MIN..MAX` fix a size that the graph or ONNX model leaves open, or choose its range (repeatable)")
			fs.ListVarP(&f.values, "value", "",
				"`INPUT=NUMBERS` ONNX models: give an input its value now, such as axes=1,2, because it decides shapes (repeatable)")
			fs.ListVarP(&f.methods, "method-name", "",
				"`NAME` ONNX models: the method's name; without it main, or the files' names if there are several (repeatable, one for each)")
			fs.Group("Compiler")
			fs.ListVarP(&f.ops, "op", "",
				"`FILE` definitions of ops of your own: for graphs in text form that have them, and for nodes of a vendor's domain in ONNX models, and for models with nodes that a target's kernel of such an op replaces (repeatable; docs/custom-ops.md)")
			fs.StringSliceVar(&f.targets, "target", nil, "`NAME|FILE,...` targets to compile for: "+
				strings.Join(driver.TargetNames(), ", ")+
				", or target description files such as ./npu.target (default cpu and wgpu; one that cannot run the model is left out). With a level such as x86-64-v4 the cpu backend refuses lesser processors; it chooses kernels for the processor either way")
			fs.StringSliceVar(&f.fallbacks, "fallback", nil,
				"`NAME|FILE,...` backends that run the ops that a target lacks; the first that can runs the op. Without it such an op is an error")
			fs.IntVar(&f.stages, "stages", 1,
				"`N` divide each method into N parts of about the same work, so that rlxrun --devices can run them on up to N devices of one machine (1 to 64)")
			fs.BoolVar(
				&f.gaps, "gaps", false,
				"write nothing; list all ops and element types that each target lacks, why, and the lines of a target description with which it would run the model. Status 7 if there are any")
			fs.StringSliceVar(&f.precisions, "precision", nil,
				"`NAME,...` precisions that a run may choose for the operands of products; the first is the run's default (default "+
					strings.Join(device.UsualPrecisions(), ",")+"; also tf32)")
			fs.ListVarP(&f.mutable, "mutable-weights", "",
				"`GLOB` weights that runs must be able to replace (rlxrun --weights): no constants are computed from their values (repeatable; rlxc inspect FILE weights lists what can be replaced)")
			fs.ListVarP(
				&f.dump, "dump", "", "`PHASE=PATH` write the graphs after a phase as text; - is stdout (repeatable)")
			fs.StringVar(&f.stopAfter, "stop-after", "",
				"`PASS` stop after this pass: "+strings.Join(pass.Names(), ", "))
			fs.BoolVar(&f.check, "check", false,
				"compare every value of the compiled methods with the model's graph, by the reference, on generated inputs of the smallest sizes (very slow for large models)")
			fs.StringVar(
				&f.memory, "memory", "",
				"`SIZE` refuse to compile if more memory is needed, such as 300M or 2Gi (default what is free)")
			fs.StringVar(
				&f.report, "report", "",
				"`PATH` for each target, write which ops were fused, rewritten or left to the reference, and why fusions were missed; - is stdout")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				for _, name := range []string{"output", "target", "fallback", "precision"} {
					if fl := fs.Lookup(name); fl.Changed && (fl.Value.String() == "" || fl.Value.String() == "[]") {
						return cli.Usagef("--"+name, "its value is empty").WithHint(
							"leave the flag out for the default")
					}
				}
				if len(args) == 0 || len(args) > 1 && !compile.IsONNX(args[0]) {
					return cli.Usagef("compile", "takes one checkpoint; found %d arguments", len(args)).WithHint(
						"try: rlxc model.safetensors -o model.rlx")
				}
				for _, name := range []string{"output", "fallback", "stages", "precision", "dump", "stop-after",
					"report"} {
					if f.gaps && fs.Lookup(name).Changed {
						return cli.Usagef("--"+name, "cannot be combined with --gaps, which compiles nothing")
					}
				}
				for _, name := range []string{"batch", "cache", "context", "lora", "stages", "train-batch",
					"train-tokens"} {
					if n, _ := fs.GetInt(name); fs.Lookup(name).Changed && n < 1 {
						return cli.Usagef("--"+name, "is %d; allowed are 1 and more", n).WithHint(
							"without the flag, the default applies")
					}
				}
				if fs.Lookup("seed").Changed && !compile.IsGraph(args[0]) {
					return cli.Usagef(
						"--seed", "applies to graphs in text form only (.txt or .rlxg); %s is a checkpoint", args[0])
				}
				f.models = args[1:]
				return runCompile(ctx, env, args[0], &f, func(name string) bool { return fs.Lookup(name).Changed })
			}
		},
	}
}

// phases are the names that --dump and --stop-after accept.
func phases() []string { return append([]string{"in"}, pass.Names()...) }

// options returns the options of package compile that the flags select. given reports whether a flag is on the command
// line.
func (f *compileFlags) options(given func(flag string) bool) (compile.Options, error) {
	o := compile.Options{
		Config: f.config, Set: f.set.Values, Batch: f.batch, Cache: f.cache, Context: f.context, LoRA: f.lora,
		Train:   f.train,
		Weights: f.weights, Seed: f.seed,
		Ops:     f.ops.Values,
		Targets: f.targets, Fallbacks: f.fallbacks, Stages: f.stages, Precisions: f.precisions,
		Models: f.models, Methods: f.methods.Values,
		StopAfter: f.stopAfter, MutableWeights: f.mutable.Values,
	}
	if f.activations.Value != "auto" {
		o.Activations = f.activations.Value
	}
	for name, to := range map[string]*string{"arch": &o.Arch, "dtype": &o.DType, "quantize": &o.Quantize} {
		if given(name) { // the defaults do not apply to graphs
			*to = map[string]string{"arch": f.arch, "dtype": f.dtype.Value, "quantize": f.quantize.Value}[name]
		}
	}
	var err error
	if o.Sizes, o.Ranges, err = parseSizes(f.sizes.Values); err != nil {
		return o, err
	}
	if o.Values, err = parseValues(f.values.Values); err != nil {
		return o, err
	}
	if f.memory != "" {
		var ok bool
		if o.Memory, ok = units.ParseBytes(f.memory); !ok {
			return o, cli.Usagef("--memory "+f.memory, "is not a size such as 300M, 1.5G or 2Gi")
		}
	}
	return o, nil
}

// parseSizes parses the values of --size: sizes, and ranges of sizes.
func parseSizes(values []string) (sizes map[string]int64, ranges map[string][2]int64, err error) {
	sizes, ranges = map[string]int64{}, map[string][2]int64{}
	given := map[string]string{}
	for _, v := range values {
		name, text, _ := strings.Cut(v, "=")
		if old, ok := given[name]; ok && old != text {
			return nil, nil, cli.Usagef("--size "+v, "%s is %s already", name, old)
		}
		given[name] = text
		if lo, hi, ok := strings.Cut(text, ".."); ok {
			least, err1 := strconv.ParseInt(lo, 10, 64)
			most, err2 := strconv.ParseInt(hi, 10, 64)
			if name == "" || err1 != nil || err2 != nil || least < 0 || least > most {
				return nil, nil, cli.Usagef("--size "+v, "is not SYMBOL=MIN..MAX, such as --size S=1..512")
			}
			ranges[name] = [2]int64{least, most}
			continue
		}
		symbol, n := cli.ParseSize(v)
		if symbol == "" {
			return nil, nil, cli.Usagef("--size "+v, "is not SYMBOL=N, such as --size S=128, or SYMBOL=MIN..MAX")
		}
		sizes[symbol] = n
	}
	return sizes, ranges, nil
}

// parseValues parses the values of --value.
func parseValues(values []string) (map[string][]float64, error) {
	out := map[string][]float64{}
	for _, v := range values {
		name, text, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, cli.Usagef("--value "+v, "is not INPUT=NUMBERS, such as --value axes=1,2")
		}
		list := []float64{}
		for _, s := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil {
				return nil, cli.Usagef("--value "+v, "%q is no number", s)
			}
			list = append(list, x)
		}
		out[name] = list
	}
	return out, nil
}

func runCompile(ctx context.Context, env *cli.Env, src string, f *compileFlags, given func(flag string) bool) error {
	start := time.Now()
	o, err := f.options(given)
	if err != nil {
		return err
	}
	dumps, err := parseDumps(f.dump.Values, f.stopAfter)
	if err != nil {
		return err
	}
	o.Dump = dumps.graph
	m, err := compile.Load(ctx, src, o)
	if err != nil {
		return err
	}
	defer m.Close()
	if f.output == "" {
		f.output = m.Name + ".rlx"
	}
	if err := checkOutputs(ctx, outputsOf(f, dumps), m.Files); err != nil {
		return err
	}
	if f.gaps {
		return reportGaps(ctx, env, m)
	}
	r, err := m.Compile(ctx)
	if err == nil {
		err = dumps.flush(ctx, env)
	}
	if err == nil && f.report != "" {
		err = writeReport(ctx, env, f.report, r.Reports)
	}
	if err != nil || f.stopAfter != "" {
		return err
	}
	if f.check {
		skipped, err := r.Check(ctx)
		if err != nil {
			return err
		}
		for _, why := range skipped {
			env.Notef("  %-14s %s", "not checked", why)
		}
	}
	bar := env.Progress("writing", r.WeightsBytes)
	err = r.Write(ctx, f.output, bar.Set)
	bar.Clear()
	if err != nil {
		return err
	}
	return reportCompiled(env, m, r, time.Since(start))
}

// programJSON is a program in the output of --json.
type programJSON struct {
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
	// For a method that several backends run in turn: the backends, the number of times that execution moves from one
	// to another, and the bytes that are copied between them at the largest sizes.
	Backends      []string       `json:"backends,omitempty"`
	Elsewhere     map[string]int `json:"elsewhere,omitempty"`
	CrossingBytes int64          `json:"crossing_bytes,omitempty"`
}

func jsonOf(p compile.Program) programJSON {
	out := programJSON{
		Method: p.Method, Target: p.Target, Steps: p.Steps,
		ArenaBytes: p.ArenaBytes, PeakBytes: p.PeakBytes, Reuse: p.Reuse, Fused: p.Fused, Missed: p.Missed,
		Rewritten: p.Rewritten, Reference: p.Reference, CrossingBytes: p.Split.CrossingBytes(),
	}
	if p.Split.InPieces() {
		out.Elsewhere = map[string]int{}
		for _, s := range p.Split.Segments {
			out.Backends = append(out.Backends, s.Target)
			addCounts(out.Elsewhere, s.Lacked)
			addCounts(out.Elsewhere, s.Moved)
		}
	}
	return out
}

// reportCompiled prints what was compiled.
func reportCompiled(env *cli.Env, m *compile.Model, r *compile.Result, took time.Duration) error {
	if env.JSON {
		return reportJSON(env, m, r, took)
	}
	if m.Note != "" {
		env.Notef("%s", m.Note)
	}
	env.Notef("recognised %s", m.Arch)
	for _, f := range m.Facts {
		env.Notef("  %-14s %s", f.Name, f.Value)
	}
	noteUnused(env, m.Unused)
	for _, name := range slices.Sorted(maps.Keys(r.Infinite)) {
		env.Notef("  %-14s %s of %s became infinite: too large for the type chosen with --dtype", "warning",
			cli.Count(r.Infinite[name], "value", "values"), name)
	}
	notePackings(env, r)
	width := 14
	for _, p := range r.Programs {
		width = max(width, len(p.Method+"/"+p.Target))
	}
	for _, p := range r.Programs {
		env.Notef("  %-*s %s, arena %s, %.1fx reuse%s", width, p.Method+"/"+p.Target,
			cli.Count(p.Steps, "step", "steps"),
			cli.Size(p.ArenaBytes), p.Reuse, loweringOf(p.Split))
	}
	for _, l := range r.LeftOut {
		env.Notef("  %-*s left out: it cannot run the model; --target %s --gaps lists what it lacks", width, l.Target, l.Target)
	}
	env.Notef("%s: %s, %s, %.2f s", r.Path, cli.Size(r.Size), cli.Count(r.Weights, "weight", "weights"), took.Seconds())
	return nil
}

// loweringOf says how a method was rewritten for a target and divided among backends.
func loweringOf(s *program.Split) string {
	out := s.Lowering()
	if out != "" {
		out = "; " + out
	}
	switch {
	case len(s.Segments) > 1 && len(s.Backends()) == 1:
		out += fmt.Sprintf("; in %d stages, copying %s of up to %s", len(s.Segments),
			cli.Count(len(s.Crossings()), "value", "values"), cli.Size(s.CrossingBytes()))
	case s.InPieces():
		out += fmt.Sprintf("; %s between %s, copying %s of up to %s",
			cli.Count(len(s.Segments)-1, "switch", "switches"), strings.Join(s.Backends(), " and "),
			cli.Count(len(s.Crossings()), "value", "values"), cli.Size(s.CrossingBytes()))
	}
	return out
}

func reportJSON(env *cli.Env, m *compile.Model, r *compile.Result, took time.Duration) error {
	var programs []programJSON
	for _, p := range r.Programs {
		programs = append(programs, jsonOf(p))
	}
	facts := map[string]string{}
	for _, f := range m.Facts {
		facts[f.Name] = f.Value
	}
	unused, because := []string{}, map[string]string{}
	for _, u := range m.Unused {
		unused, because[u.Tensor] = append(unused, u.Tensor), u.Reason
	}
	return env.WriteJSON(map[string]any{
		"output": r.Path, "bytes": r.Size, "root": r.Root, "architecture": m.Arch, "facts": facts,
		"programs": programs, "weights": r.Weights, "weights_bytes": r.WeightsBytes, "unused_tensors": unused,
		"unused_because": because, "became_infinite": r.Infinite, "quantized": packedRows(r.Packed),
		"seconds": took.Seconds(), "left_out": leftOut(r),
	})
}

// leftOut returns the default targets that cannot run the model, and why.
func leftOut(r *compile.Result) map[string]string {
	out := map[string]string{}
	for _, l := range r.LeftOut {
		out[l.Target] = l.Err.Error()
	}
	return out
}

// noteUnused prints how many tensors no method needs, per reason.
func noteUnused(env *cli.Env, list []compile.Unused) {
	by := map[string][]string{}
	for _, u := range list {
		by[u.Reason] = append(by[u.Reason], u.Tensor)
	}
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		env.Notef("  %-14s %s, such as %s (%s)", "not used", cli.Count(len(by[reason]), "tensor", "tensors"),
			by[reason][0], reason)
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
