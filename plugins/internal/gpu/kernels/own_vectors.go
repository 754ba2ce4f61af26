package kernels

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// Vectors describes a shader for products of one row x [1,K] with weights [N,K], for a device's own kernel. It writes
// the results or, if they are gated, the product of both. These are its bindings:
//
//	a            x, of f32
//	b0_          weights; b1_, ... are those of further products, and so on
//	bias0_       [N], if the product has a bias
//	residual0_   [N], if it has a residual
//	y0_          [N], the result; only y0_ if the products are gated
//	gamma, beta  [K], if x is normalised first
type Vectors struct {
	Name     string
	K        int
	Norm     bool // x is first normalised, as by rms_norm
	Eps      float32
	Gated    bool
	Lasts    bool // no step writes weights, gamma or beta, so they can be read before earlier steps end
	Products []VectorProduct
	Bindings []Binding
}

// VectorProduct is one product of Vectors.
type VectorProduct struct {
	N              int
	Type           dtype.DType // of the weights
	Bias, Residual bool
	Act            string
}

// Binding returns the number of a binding, which must exist.
func (v Vectors) Binding(name string) int {
	for i, b := range v.Bindings {
		if b.Name == name {
			return i
		}
	}
	panic("BUG: gpu: products of one row have no binding " + name)
}

// ownVectors returns the device's own shader in place of s, if it has one for these steps.
func (l Limits) ownVectors(s Shader, steps []vectorStep, norm *vectorNorm) Shader {
	if l.OwnVectors == nil {
		return s
	}
	lasts := func(n *ir.Node) bool { return l.Lasts != nil && l.Lasts(n) }
	of := s.Consts.(vectors)
	v := Vectors{Name: s.Name, Gated: of.Gated, Lasts: true, Bindings: s.Bindings}
	for i, p := range steps {
		x, w := p.node.In[0].Type, p.node.In[1]
		k, n := x.Shape[x.Rank()-1], p.node.Type.Shape[p.node.Type.Rank()-1]
		if !k.IsStatic() || !n.IsStatic() || !BeginsAt(w, 16) {
			return s
		}
		v.K, v.Lasts = int(k.Const), v.Lasts && lasts(w)
		v.Products = append(v.Products, VectorProduct{int(n.Const), w.Type.DType, p.attrs.HasBias, p.attrs.HasResidual,
			of.Products[i].Act})
	}
	if norm != nil {
		v.Norm, v.Eps = true, float32(norm.eps)
		v.Lasts = v.Lasts && lasts(norm.node.In[norm.gamma]) && lasts(norm.node.In[norm.gamma+1])
	}
	own, ok := l.OwnVectors(v)
	if !ok {
		return s
	}
	own.Fields = []string{"groups"}
	own.Params = func(c *Call) []uint32 {
		if list := s.Params(c); list == nil {
			return nil
		}
		return []uint32{uint32(own.Groups(c))}
	}
	return own
}
