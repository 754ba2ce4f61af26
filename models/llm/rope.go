package llm

import (
	"math"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
)

// rope describes rotary position embedding, with one of the scalings of its frequencies in Transformers.
type rope struct {
	kind      string
	base      float64
	factor    float64 // by which the longest wavelengths are multiplied
	low, high float64 // llama3: rotations within the original context; between these, frequencies are scaled partly
	original  float64 // llama3, yarn: positions of the original training
	// yarn: rotations within the original context; between fast and slow, frequencies are scaled partly
	fast      float64
	slow      float64
	truncate  bool    // yarn: round the range of pairs outwards
	attention float64 // yarn: multiplies cosine and sine
	part      float64 // fraction of a head that rotates
}

// Keys of rotary embedding. Old configurations have them at the top, newer ones in objects.
const (
	keyTheta      = "rope_theta"
	keyPartial    = "partial_rotary_factor"
	keyRotated    = "rope_dimension_count"
	keyScaling    = "rope_scaling"
	keyParameters = "rope_parameters"
)

// ropeKeys lists the keys within an object.
var ropeKeys = map[string]string{
	keyTheta: "base of the rotary frequencies (default 10000)", keyPartial: "of qwen3_5 and qwen3_next: part of a head that turns (default 0.25)",
	"rope_type": "scaling of rotary frequencies: default, linear, dynamic, llama3 or yarn",
	"type":      "the older name of rope_type", "factor": "how much longer contexts become",
	"low_freq_factor": "of llama3 (default 1)", "high_freq_factor": "of llama3 (default 4)",
	"original_max_position_embeddings": "of llama3 and yarn",
	"beta_fast":                        "of yarn (default 32)", "beta_slow": "of yarn (default 1)",
	"truncate":         "of yarn (default true)",
	"attention_factor": "of yarn", "mscale": "of yarn", "mscale_all_dim": "of yarn",
	"mrope_section":     "of images and video; text has one position",
	"mrope_interleaved": "of images and video; text has one position",
}

func init() {
	for _, key := range []string{keyTheta, "rope_type"} {
		keys[keyParameters+".sliding_attention."+key] = "of layers with a window"
	}
	keys[keyRotated] = "elements of a head that turn, as GGUF files have it"
	keys[keyTheta], keys[keyPartial] = ropeKeys[keyTheta], ropeKeys[keyPartial]
	for key, text := range ropeKeys {
		keys[keyScaling+"."+key], keys[keyParameters+"."+key], keys[keyParameters+".full_attention."+key] = text, text,
			text
	}
}

func readRope(r *reader, c config) (p rope) {
	object := keyScaling + "."
	if r.Has(keyParameters) {
		object = keyParameters + "."
		// Transformers would take rope_scaling. Users who follow a model card add it to a file that has
		// rope_parameters.
		if r.Has(keyScaling) {
			r.fail(
				diag.New(arch.ErrConfig, r.Origin(keyParameters), "%s and %s are both given; want one of them",
					keyScaling, keyParameters))
		}
	}
	float := func(key string, otherwise float64) float64 { return r.positive(object+key, otherwise) }
	base := 10000.0
	if kinds[c.kind].local {
		base = 1e6
		if r.Has(keyParameters + ".full_attention") {
			object = keyParameters + ".full_attention."
		}
	}
	p.base = float(keyTheta, r.positive(keyTheta, base))
	if r.err == nil && p.base < 1 {
		r.fail(diag.New(arch.ErrConfig, r.Origin(keyTheta), "%s is %v; want a number of 1 or more", keyTheta, p.base))
	}
	p.part = readPart(r, c, object)
	key, old := object+"rope_type", object+"type"
	if older := r.string(old, "default"); r.Given(key) {
		p.kind = r.string(key, "default")
	} else {
		key, p.kind = old, older
	}
	// Text has one position, so these change nothing.
	_, err := r.Ints(object+"mrope_section", 0, maxSize)
	r.fail(err)
	r.bool(object+"mrope_interleaved", true)
	p.factor, p.attention = 1, 1
	scaled := func() {
		p.factor = float("factor", float64(c.maxPositions)/p.original)
		if !r.Has(object+"factor") && p.kind != "yarn" {
			r.fail(
				diag.New(arch.ErrConfig, r.Origin(key), "%sfactor is not given; scaling %q needs it", object, p.kind))
		}
	}
	p.original = float("original_max_position_embeddings", float64(c.maxPositions))
	switch p.kind {
	case "default", "mrope":
	case "linear", "dynamic":
		if scaled(); p.kind == "dynamic" && kinds[c.kind].delta {
			r.fail(diag.New(arch.ErrConfig, r.Origin(key), "%s is %q, which %s does not have", key, p.kind, c.kind))
		}
	case "llama3":
		scaled()
		p.low, p.high = float("low_freq_factor", 1), float("high_freq_factor", 4)
		if p.low == p.high {
			r.fail(
				diag.New(arch.ErrConfig, r.Origin(key),
					"low_freq_factor and high_freq_factor are both %v; want different numbers", p.low))
		}
	case "yarn":
		scaled()
		p.fast, p.slow, p.truncate = float("beta_fast", 32), float("beta_slow", 1), r.bool(object+"truncate", true)
		scale := func(m float64) float64 {
			if p.factor <= 1 {
				return 1
			}
			return 0.1*m*math.Log(p.factor) + 1
		}
		p.attention = scale(1)
		if m, all := r.float(object+"mscale", 0), r.float(object+"mscale_all_dim", 0); m != 0 && all != 0 {
			p.attention = scale(m) / scale(all)
		}
		p.attention = float("attention_factor", p.attention)
	default:
		r.fail(
			diag.New(arch.ErrConfig, r.Origin(key), "%s is %q; want default, linear, dynamic, llama3 or yarn", key,
				p.kind))
	}
	return p
}

// readPart returns the part of a head that rotates. Most kinds rotate whole heads in Transformers, whatever the factor
// is.
func readPart(r *reader, c config, object string) float64 {
	part := 1.0
	if kinds[c.kind].delta {
		part = 0.25
	}
	found := r.positive(object+keyPartial, r.positive(keyPartial, part))
	if r.err == nil && !kinds[c.kind].delta && found != 1 {
		key := keyPartial
		if r.Has(object + keyPartial) {
			key = object + keyPartial
		}
		err := diag.New(arch.ErrConfig, r.Origin(key), "%s is %v; %s rotates whole heads, so want 1", key, found,
			c.kind)
		r.fail(err.WithHint("if the model was made with partly rotated heads, --set %s=null --set %s=%d", key, keyRotated,
			int64(float64(c.headDim)*found)))
	}
	return found
}

// rotated returns the number of elements of a head that rotate.
func (p rope) rotated(r *reader, c config) int64 {
	n := r.int(keyRotated, 1, maxSize, int64(float64(c.headDim)*p.part))
	if r.err == nil && (n < 2 || n%2 != 0 || n > c.headDim) {
		key, found := keyPartial, any(p.part)
		if r.Has(keyRotated) {
			key, found = keyRotated, n
		}
		r.fail(diag.New(arch.ErrConfig, r.Origin(key), "%s is %v, which rotates %d of %d elements; want an even number",
			key, found, n, c.headDim))
	}
	return n
}

// frequencies returns the radians per position of each of n/2 pairs, or nil for those of the base. tokens returns the
// length of the sequence so far, i32[]. Only dynamic scaling uses it; other frequencies are constants.
func (p rope) frequencies(g *ir.Graph, n int64, tokens func() *ir.Node, maxPositions int64) *ir.Node {
	if p.kind == "default" || p.kind == "mrope" {
		return nil
	}
	d := dtype.F64
	if p.kind == "dynamic" {
		d = dtype.F32
	}
	number := func(v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(d)) }
	pair := op.Iota(g, 0, ir.TypeOf(d, n/2))
	power := op.Mul(pair, number(-2/float64(n))) // of the base
	if p.kind == "dynamic" {
		// The base grows with the sequence, once it is longer than maxPositions.
		length := op.Max(op.Cast(tokens(), d), number(float64(maxPositions)))
		growth := op.Sub(op.Mul(length, number(p.factor/float64(maxPositions))), number(p.factor-1))
		return op.Exp(
			op.Mul(power, op.Add(number(math.Log(p.base)), op.Mul(op.Log(growth), number(float64(n)/float64(n-2))))))
	}
	f := op.Exp(op.Mul(power, number(math.Log(p.base))))
	keep := number(0) // 1 for pairs that keep their frequency, 0 for pairs whose wavelength is multiplied by factor
	switch p.kind {
	case "llama3":
		rotations := op.Mul(f, number(p.original/(2*math.Pi))) // within the original context
		keep = op.Clamp(op.Mul(op.Sub(rotations, number(p.low)), number(1/(p.high-p.low))), 0, 1)
	case "yarn":
		low, high := p.yarnRange(n)
		keep = op.Sub(number(1), op.Clamp(op.Mul(op.Sub(pair, number(low)), number(1/(high-low))), 0, 1))
	}
	f = op.Mul(f, op.Add(keep, op.Mul(op.Sub(number(1), keep), number(1/p.factor))))
	return op.Cast(f, dtype.F32).Named("rope_frequencies")
}

// yarnRange returns the pairs between which YaRN goes from keeping frequencies to scaling them (Peng et al. 2023,
// section 3.2).
func (p rope) yarnRange(n int64) (low, high float64) {
	pair := func(rotations float64) float64 {
		return float64(n) * math.Log(p.original/(rotations*2*math.Pi)) / (2 * math.Log(p.base))
	}
	low, high = pair(p.fast), pair(p.slow)
	if p.truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(n-1))
	if low == high {
		high += 0.001 // as in Transformers
	}
	return low, high
}
