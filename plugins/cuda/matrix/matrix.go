// Package matrix has kernels for the matrix units of NVIDIA GPUs, as PTX that is generated here. They replace kernels
// of plugins/internal/gpu/kernels where the precision of a run allows that: see docs/cuda.md. Each kernel is a file
// that registers itself by the ops that it runs.
//
// PTX is defined in NVIDIA's Parallel Thread Execution ISA. A text has one .entry; for each binding in order it has the
// parameters of a translated kernel (see plugins/cuda/ptx): the address and the length in bytes.
package matrix

import (
	"fmt"
	"maps"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/plugins/cuda/ptx"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// Device has the properties of a device that kernels depend on.
type Device struct {
	Capability int // compute capability times 10
	Processors int
	Shared     int // bytes of shared memory that a block can have

	// Tests set these.
	Tile   *Tile // of products; nil for the kernel's choice
	Splits int   // parts into which their K is divided; 0 for the kernel's choice
	Small  bool  // products at f32 are divided into terms however small they are
	NoFew  bool  // products of few rows have no kernels of their own
}

// kernel makes a device's kernel for an op, or returns false if the device lacks what it needs.
type kernel func(d Device) (kernels.Own, bool)

var registry = map[string]kernel{}

func register(op string, k kernel) struct{} {
	if _, ok := ir.Find(op); !ok || registry[op] != nil {
		panic("BUG: matrix: kernel for " + op + ", which is no op or has a kernel already")
	}
	registry[op] = k
	return struct{}{}
}

// Kernels returns the kernels for a device, by op. Nil means that it has no units for them.
func Kernels(d Device) map[string]kernels.Own {
	var out map[string]kernels.Own
	for op, k := range maps.All(registry) {
		if own, ok := k(d); ok {
			if out == nil {
				out = map[string]kernels.Own{}
			}
			out[op] = own
		}
	}
	return out
}

// Precisions are those that kernels of this package know.
func Precisions() []string { return []string{"bf16", "f16", "tf32"} }

// magic begins the texts of this package. It is followed by the number of threads and the bytes of shared memory.
const magic = "// rlx matrix kernel: "

// entryName is the name of the entry of all texts.
const entryName = "rlx_matrix"

// Kernel returns how a text of this package is launched. ok is false if it is another one.
func Kernel(text string) (k *ptx.Kernel, ok bool) {
	rest, ok := strings.CutPrefix(text, magic)
	if !ok {
		return nil, false
	}
	k = &ptx.Kernel{Text: text, Entry: entryName}
	if _, err := fmt.Sscanf(rest, "%d threads, %d bytes\n", &k.Threads, &k.Dynamic); err != nil {
		panic("BUG: matrix: a text begins with " + rest[:min(len(rest), 60)])
	}
	return k, true
}

// narrow returns the type of 16 bits to which a precision rounds operands, or 0 if there is none.
func narrow(l kernels.Limits) dtype.DType {
	return map[string]dtype.DType{"bf16": dtype.BF16, "f16": dtype.F16}[l.Precision]
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
