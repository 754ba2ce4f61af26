package weights

import (
	"cmp"
	"encoding/binary"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
)

// Mixed is the scheme that spends more bits where they matter most, like q4_k_m of llama.cpp: q6_k for the last layer,
// and for the values and the second feed-forward layer in half of the blocks; q4_k for the rest. The encoder of images
// has q8_0, as is usual for llama.cpp.
const Mixed = "q4_k_m"

// Quantizations lists the schemes that Quantize accepts.
func Quantizations() []string {
	out := []string{Mixed}
	for _, d := range quant.Encodes() {
		out = append(out, d.String())
	}
	slices.Sort(out)
	return out
}

// Quantize chooses packed types for the matrices of a checkpoint: tensors [n,k] whose names end in .weight, except
// those that choose experts and learned positions, and the matrices [e,n,k] of experts. If k is a multiple of 32 but
// not of 256, it uses q8_0 in place of types with blocks of 256 values. Other tensors keep their type.
func Quantize(c *Checkpoint, scheme string) map[string]dtype.DType {
	out := map[string]dtype.DType{}
	layers := 0
	for _, name := range c.Names() {
		layers = max(layers, layerOf(name)+1)
	}
	_, untied := c.Info("lm_head.weight")
	for _, name := range c.Names() {
		info, _ := c.Info(name)
		matrix := len(info.Shape) == 2 && strings.HasSuffix(name, ".weight") &&
			!slices.ContainsFunc(unpacked, func(end string) bool { return strings.HasSuffix(name, end) })
		if experts := len(info.Shape) == 3 && strings.Contains(name, ".experts."); !matrix && !experts ||
			!info.DType.IsFloat() {
			continue
		}
		rows, k := info.Shape[0]*info.Shape[len(info.Shape)-2], info.Shape[len(info.Shape)-1]
		d, ok := dtype.Parse(scheme)
		if !ok {
			d = mixedType(name, layers, untied)
		}
		if k%int64(d.Values()) != 0 {
			d = dtype.Q8_0
		}
		if rows > 0 && k > 0 && k%int64(d.Values()) == 0 {
			out[name] = d
		}
	}
	return out
}

// unpacked lists ends of the names of matrices that choose experts, or have learned positions.
var unpacked = []string{"mlp.gate.weight", "shared_expert_gate.weight", "pos_embed.weight"}

// mixedType returns the type of a matrix in scheme Mixed.
func mixedType(name string, layers int, untied bool) dtype.DType {
	switch i := layerOf(name); {
	case strings.Contains(name, "visual."):
		return dtype.Q8_0
	case strings.HasSuffix(name, "lm_head.weight"), strings.HasSuffix(name, "embed_tokens.weight") && !untied:
		return dtype.Q6_K
	case strings.HasSuffix(name, ".v_proj.weight"), strings.HasSuffix(name, ".down_proj.weight"),
		strings.HasSuffix(name, ".down_proj"):
		if i < layers/8 || i >= 7*layers/8 || (i-layers/8)%3 == 2 {
			return dtype.Q6_K
		}
	}
	return dtype.Q4_K
}

// layerOf returns the layer number in a name such as model.layers.3.mlp.down_proj.weight, or -1.
func layerOf(name string) int {
	_, rest, _ := strings.Cut(name, "layers.")
	number, _, _ := strings.Cut(rest, ".")
	if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < 1<<20 {
		return i
	}
	return -1
}

// A Packing reports how a tensor was packed.
type Packing struct {
	Name          string      // of the tensor
	DType         dtype.DType // element type in the artifact
	Before, After int64       // bytes
	// Error is the root mean square of the differences, divided by the root mean square of the values.
	Error float64
}

// writePacked streams a tensor as blocks.
func (s Stored) writePacked(w io.Writer, name string, d dtype.DType) error {
	p := &packer{w: w, d: d, c: s.Checkpoint, name: name}
	if _, err := s.Copy(p, name, dtype.F32); err != nil {
		return err
	}
	if s.Packings != nil {
		info, _ := s.Info(name)
		e := 0.0
		if p.size > 0 {
			e = math.Sqrt(p.error / p.size)
		}
		s.Packings(Packing{name, d, info.Size, p.written, e})
	}
	return nil
}

// A packer encodes floats. Copy writes whole blocks to it, because both chunk and the size of the tensor are multiples
// of the block.
type packer struct {
	w             io.Writer
	d             dtype.DType
	c             *Checkpoint
	name          string
	out           []byte
	written, done int64 // bytes, and values
	error, size   float64
}

func (p *packer) Write(b []byte) (int, error) {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	values, size := p.d.Values(), p.d.Size()
	blocks := len(x) / values
	if cap(p.out) < blocks*size {
		p.out = make([]byte, blocks*size)
	}
	out := p.out[:blocks*size]
	// The size of a part does not depend on the number of processors, so that sums of errors do not either.
	const part = 1 << 13
	parts := make([]packedPart, (len(x)+part-1)/part)
	var wg sync.WaitGroup
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range parts {
		limit <- struct{}{}
		wg.Go(func() {
			at, end := i*part, min((i+1)*part, len(x))
			parts[i].encode(out[at/values*size:end/values*size], p.d, x[at:end])
			<-limit
		})
	}
	wg.Wait()
	for i, q := range parts {
		if q.bad >= 0 {
			at := p.done + int64(i*part+q.bad*values)
			return 0,
				diag.New(
					CodeDType, p.c.path, "tensor %q: one of the values %d to %d is NaN, infinite or too large for %v",
					p.name, at, at+int64(values)-1, p.d).
					WithHint("store the tensor in another type")
		}
		p.error, p.size = p.error+q.error, p.size+q.size
	}
	n, err := p.w.Write(out)
	p.written, p.done = p.written+int64(n), p.done+int64(len(x))
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

type packedPart struct {
	bad         int
	error, size float64 // sums of squares
}

func (q *packedPart) encode(dst []byte, d dtype.DType, x []float32) {
	if q.bad = quant.Encode(dst, d, x); q.bad >= 0 {
		return
	}
	back := make([]float32, len(x))
	quant.Decode(back, d, dst)
	for i, v := range x {
		e := float64(v) - float64(back[i])
		q.error, q.size = q.error+e*e, q.size+float64(v)*float64(v)
	}
}

// SortPackings sorts packings by layer number, then by name.
func SortPackings(p []Packing) {
	slices.SortFunc(p, func(a, b Packing) int {
		return cmp.Or(cmp.Compare(layerOf(a.Name), layerOf(b.Name)), strings.Compare(a.Name, b.Name))
	})
}
