package llm

import (
	"math"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
)

// rope is the rotary position embedding.
type rope struct {
	kind string // of scaling
	base float64
}

// Keys of rotary embedding, which are at the top of old configurations and in objects of newer ones.
const (
	keyTheta      = "rope_theta"
	keyScaling    = "rope_scaling"
	keyParameters = "rope_parameters"
)

func init() {
	keys[keyTheta] = "base of the rotary frequencies (default 10000)"
	for _, object := range []string{keyScaling, keyParameters} {
		keys[object+"."+keyTheta] = keys[keyTheta]
		keys[object+".rope_type"] = "scaling of rotary frequencies: default"
		keys[object+".type"] = "the older name of rope_type"
	}
}

func readRope(r *reader, c config) (p rope) {
	object := keyScaling
	if r.Has(keyParameters) {
		object = keyParameters
	}
	p.base = r.float(object+"."+keyTheta, r.float(keyTheta, 10000))
	if !(p.base >= 1 && p.base <= math.MaxFloat32) {
		r.fail(diag.New(arch.ErrConfig, keyTheta, "is %v; want a number of 1 or more", p.base))
	}
	key := object + ".rope_type"
	if !r.Has(key) {
		key = object + ".type"
	}
	if p.kind = r.string(key, "default"); p.kind != "default" {
		r.fail(diag.New(arch.ErrConfig, r.Origin(key), "%s is %q; want default", key, p.kind))
	}
	return p
}

// apply rotates the heads of x [B,T,heads*D], whose first token is at position; nil is 0.
func (c config) rotate(x, position *ir.Node) *ir.Node {
	return op.Rope(x, position, op.RopeAttrs{HeadDim: int(c.headDim), Layout: op.BSE, Base: c.rope.base})
}
