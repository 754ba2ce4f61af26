package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// The gradients of convolutions and pools are convolutions, too. With N batch, C channels and spatial axes S:
//
//   - The gradient of x of a convolution is the transposed convolution of dy with the same w, and the other way round.
//   - That of w is a convolution of x with dy as its kernel, after batch and channels have changed places; stride and
//     dilation change places, too.
//   - A pool of a sum is a convolution of single channels with a kernel of ones.

// spatial has a list of attributes for the spatial axes of g.
func (g *Geometry) spatial(list [3]int) []int { return append([]int{}, list[3-g.Axes:]...) }

// first returns x, in the layout of g, with channels first.
func (g *Geometry) first(x *ir.Node) *ir.Node {
	if !g.Last {
		return x
	}
	perm := []int{0, g.Axes + 1}
	for i := range g.Axes {
		perm = append(perm, 1+i)
	}
	return Transpose(x, perm...)
}

// back is the inverse of first.
func (g *Geometry) back(x *ir.Node) *ir.Node {
	if !g.Last {
		return x
	}
	perm := []int{0}
	for i := range g.Axes {
		perm = append(perm, 2+i)
	}
	return Transpose(x, append(perm, 1)...)
}

func addConv(x, w *ir.Node, axes int, a ConvAttrs) *ir.Node {
	return x.Graph.Add([...]*ir.OpDef{nil, Conv1DDef, Conv2DDef, Conv3DDef}[axes], a, x, w, nil)
}

func addConvTranspose(x, w *ir.Node, axes int, a ConvTransposeAttrs) *ir.Node {
	def := [...]*ir.OpDef{nil, ConvTranspose1DDef, ConvTranspose2DDef, ConvTranspose3DDef}[axes]
	return x.Graph.Add(def, a, x, w, nil)
}

// transposed returns the transposed convolution of dy with w whose result has the spatial sizes of x, in g's layout.
func (g *Geometry) transposed(dy, w *ir.Node, x ir.Shape, layout string) *ir.Node {
	for i := 3 - g.Axes; i < 3; i++ {
		if x[g.axis(i)].Is(0) { // x is nothing but padding
			shape := append(ir.Shape{}, x...)
			shape[g.channels()], _ = w.Type.Shape[1].Mul(ir.Static(int64(g.Groups)))
			return Const(dy.Graph, 0, ir.Type{DType: dy.Type.DType, Shape: shape})
		}
	}
	rest := make([]int, 0, g.Axes) // elements that the division by the stride has dropped
	for i := 3 - g.Axes; i < 3; i++ {
		k, in, out := int(w.Type.Shape[2+i-(3-g.Axes)].Const), int(x[g.axis(i)].Const),
			int(dy.Type.Shape[g.axis(i)].Const)
		rest = append(rest, in-((out-1)*g.Stride[i]-2*g.Padding[i]+g.Dilation[i]*(k-1)+1))
	}
	return addConvTranspose(dy, w, g.Axes, ConvTransposeAttrs{Stride: g.spatial(g.Stride),
		Padding:       g.spatial(g.Padding),
		OutputPadding: rest, Dilation: g.spatial(g.Dilation), Groups: g.Groups, Layout: layout})
}

// weightGradient returns the gradient of w [Cn,Cw/groups,...]. wide [N,Cw,...] is x of a convolution, and dy of a
// transposed one; narrow [N,Cn,...] is the other.
func (g *Geometry) weightGradient(wide, narrow *ir.Node, w ir.Shape) *ir.Node {
	s, groups := wide.Type.Shape, ir.Static(int64(g.Groups))
	per, batches := ir.Static(w[1].Const), ir.Static(s[0].Const*int64(g.Groups))
	perm, swap := []int{2, 1, 0}, []int{1, 0}
	for i := range g.Axes {
		perm, swap = append(perm, 3+i), append(swap, 2+i)
	}
	x := Transpose(Reshape(wide, append(ir.Shape{s[0], groups, per}, s[2:]...)), perm...)
	x = Reshape(x, append(ir.Shape{per, batches}, s[2:]...))
	y := addConv(x, Transpose(narrow, swap...), g.Axes, ConvAttrs{Stride: g.spatial(g.Dilation),
		Padding: g.spatial(g.Padding), Dilation: g.spatial(g.Stride), Groups: g.Groups, Layout: layouts[g.Axes][0]})
	for i, k := range w[2:] {
		y = shorten(y, 2+i, k)
	}
	return Transpose(y, swap...)
}

// shorten keeps the first n elements of an axis.
func shorten(x *ir.Node, axis int, n ir.Dim) *ir.Node {
	if x.Type.Shape[axis] == n {
		return x
	}
	return Narrow(x, axis, 0, int(n.Const))
}

// staticSizes returns an error unless all sizes of x are known, or all but the batch if batched is set.
func staticSizes(x ir.Type, batched bool) error {
	shape := x.Shape
	if batched {
		shape = shape[1:]
	}
	if !shape.IsStatic() {
		return fmt.Errorf("x is %v; the gradient needs sizes that are known when the graph is compiled", x)
	}
	return nil
}

// convGradients returns the gradients of the operands of a convolution. The gradient of the bias is the sum of dy over
// all axes except the channels.
func (g *Geometry) convGradients(n, dx, dw, dy *ir.Node) []*ir.Node {
	all := []*ir.Node{dx, dw, nil}
	if n.In[ConvBias] != nil {
		var axes []int
		for i := range dy.Type.Rank() {
			if i != g.channels() {
				axes = append(axes, i)
			}
		}
		all[ConvBias] = ReduceSum(dy, false, axes...)
	}
	return narrowed(all, n.In)
}

func convGradient(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a := n.Attrs.(ConvAttrs)
	g, err := a.Geometry()
	if err == nil {
		err = staticSizes(n.In[0].Type, false)
	}
	if err != nil {
		return nil, err
	}
	in := allWidened(n.In[0], n.In[1], dy[0])
	return g.convGradients(n, g.transposed(in[2], in[1], n.In[0].Type.Shape, a.Layout),
		g.weightGradient(g.first(in[0]), g.first(in[2]), n.In[1].Type.Shape), in[2]), nil
}

func convTransposeGradient(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a := n.Attrs.(ConvTransposeAttrs)
	g, err := a.Geometry()
	if err == nil {
		err = staticSizes(n.In[0].Type, false)
	}
	if err != nil {
		return nil, err
	}
	in := allWidened(n.In[0], n.In[1], dy[0])
	x := addConv(in[2], in[1], g.Axes, ConvAttrs{Stride: g.spatial(g.Stride), Padding: g.spatial(g.Padding),
		Dilation: g.spatial(g.Dilation), Groups: g.Groups, Layout: a.Layout})
	for i := 3 - g.Axes; i < 3; i++ { // output_padding may add a position
		x = shorten(x, g.axis(i), n.In[0].Type.Shape[g.axis(i)])
	}
	return g.convGradients(n, x, g.weightGradient(g.first(in[2]), g.first(in[0]), n.In[1].Type.Shape), in[2]), nil
}

var _ = []struct{}{ir.Gradient(Conv1DDef, convGradient), ir.Gradient(Conv2DDef, convGradient),
	ir.Gradient(Conv3DDef, convGradient), ir.Gradient(ConvTranspose1DDef, convTransposeGradient),
	ir.Gradient(ConvTranspose2DDef, convTransposeGradient), ir.Gradient(ConvTranspose3DDef, convTransposeGradient)}

// single returns x, with channels first, as images of one channel.
func single(x *ir.Node) (*ir.Node, error) {
	images, ok := x.Type.Shape[0].Mul(x.Type.Shape[1])
	if !ok {
		return nil, fmt.Errorf("x is %v, which has too many images", x.Type)
	}
	return Reshape(x, append(ir.Shape{images, ir.Static(1)}, x.Type.Shape[2:]...)), nil
}

// picks returns the kernels [T,1,k...] that pick each of the T elements of a window.
func picks(g *ir.Graph, kernel []int, d dtype.DType) *ir.Node {
	taps, shape := int64(1), ir.Shape{}
	for _, k := range kernel {
		taps, shape = taps*int64(k), append(shape, ir.Static(int64(k)))
	}
	square := ir.TypeOf(dtype.I32, taps, taps)
	same := Cast(Eq(Iota(g, 0, square), Iota(g, 1, square)), d)
	return Reshape(same, append(ir.Shape{ir.Static(taps), ir.Static(1)}, shape...))
}

// A sum or mean gives each element of a window the same gradient. A maximum or minimum gives all of it to the first
// such element of the window, as PyTorch does. In a product, an element gets the gradient times the others of the
// window.
var _ = ir.Gradient(PoolDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a := n.Attrs.(PoolAttrs)
	g, err := a.Geometry()
	if err == nil {
		err = staticSizes(n.In[0].Type, true)
	}
	if err != nil {
		return nil, err
	}
	g.Groups = 1
	in := allWidened(n.In[0], n, dy[0])
	for i := range in {
		if in[i], err = single(g.first(in[i])); err != nil {
			return nil, err
		}
	}
	x, y, d := in[0], in[1], in[2]
	plain := g // channels first
	plain.Last = false
	layout, kernel := layouts[g.Axes][0], g.spatial(g.Kernel)
	var w *ir.Node
	if a.Kind == "sum" || a.Kind == "mean" {
		each := 1.0
		shape := ir.Shape{ir.Static(1), ir.Static(1)}
		for _, k := range kernel {
			each, shape = each*float64(k), append(shape, ir.Static(int64(k)))
		}
		if a.Kind == "sum" {
			each = 1
		}
		w = Const(x.Graph, 1, ir.Type{DType: x.Type.DType, Shape: shape})
		d = Div(d, number(each, d))
	} else {
		w = picks(x.Graph, kernel, x.Type.DType)
		attrs := ConvAttrs{Stride: g.spatial(g.Stride), Padding: g.spatial(g.Padding), Layout: layout}
		one := number(1, x)
		inside := addConv(Expand(one, append(ir.Shape{ir.Static(1)}, x.Type.Shape[1:]...)), w, g.Axes, attrs)
		elements, within := addConv(x, w, g.Axes, attrs), Ne(inside, number(0, x))
		if a.Kind == "prod" {
			elements = Where(within, elements, number(1, x))
			before := Cumprod(elements, ScanAttrs{Axis: 1, Exclusive: true})
			d = Mul(d, Mul(before, Cumprod(elements, ScanAttrs{Axis: 1, Exclusive: true, Reverse: true})))
		} else {
			found := And(Eq(elements, y), within)
			rank := Cumsum(Cast(found, dtype.I32), ScanAttrs{Axis: 1})
			d = Where(And(found, Eq(rank, number(1, rank))), d, number(0, d))
		}
	}
	dx := plain.transposed(d, w, x.Type.Shape, layout)
	s := n.In[0].Type.Shape
	shape := append(ir.Shape{s[0], s[g.channels()]}, x.Type.Shape[2:]...)
	return narrowed([]*ir.Node{g.back(Reshape(dx, shape))}, n.In), nil
})

// The rows of dy are the windows of a pool that keeps all elements.
var _ = ir.Gradient(Im2ColDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	g, err := n.Attrs.(Im2ColAttrs).Geometry()
	if err == nil {
		err = staticSizes(n.In[0].Type, false)
	}
	if err != nil {
		return nil, err
	}
	g.Groups = 1
	d, x := widened(dy[0]), n.In[0].Type.Shape
	_, _, size := g.Sizes(x.Eval(nil))
	out, dim := g.OutSizes(size), func(v int) ir.Dim { return ir.Static(int64(v)) }
	taps := dim(g.Kernel[1] * g.Kernel[2])
	d = Transpose(Reshape(d, ir.Shape{x[0], dim(out[1]), dim(out[2]), x[1], taps}), 0, 3, 4, 1, 2)
	images := ir.Static(x[0].Const * x[1].Const)
	d = Reshape(d, ir.Shape{images, taps, dim(out[1]), dim(out[2])})
	w := picks(d.Graph, g.spatial(g.Kernel), d.Type.DType)
	dx := g.transposed(d, w, ir.Shape{images, ir.Static(1), x[2], x[3]}, NCHW)
	return narrowed([]*ir.Node{Reshape(dx, x)}, n.In), nil
})

// adjoint returns dx along an axis, given dy, for a linear map of that axis. matrix [out,in] is the map of the columns
// of the identity.
func adjoint(dy, matrix *ir.Node, axis int) *ir.Node {
	last := dy.Type.Rank() - 1
	perm := make([]int, last+1)
	for i := range perm {
		perm[i] = i
	}
	perm[axis], perm[last] = last, axis
	return Transpose(MatMul(Transpose(dy, perm...), matrix, MatMulAttrs{}), perm...)
}

// identity returns the identity matrix.
func identity(g *ir.Graph, n ir.Dim, d dtype.DType) *ir.Node {
	square := ir.Type{DType: dtype.I32, Shape: ir.Shape{n, n}}
	return Cast(Eq(Iota(g, 0, square), Iota(g, 1, square)), d)
}

// resize is a linear map along each axis, so its adjoint is a product with a matrix along each axis. The op itself, of
// the identity, gives the matrix.
var _ = ir.Gradient(ResizeDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a, x, d := n.Attrs.(ResizeAttrs), n.In[0].Type, widened(dy[0])
	height := a.height(x.Rank())
	a.Layout = ""
	for axis := height; axis <= height+1; axis++ {
		in, out := x.Shape[axis], n.Type.Shape[axis]
		if in == out {
			continue
		}
		if !in.IsStatic() || !out.IsStatic() {
			return nil, fmt.Errorf("x is %v and the result %v; the gradient needs static sizes", x, n.Type)
		}
		d = adjoint(d, Resize(identity(d.Graph, in, d.Type.DType), out, in, a), axis)
	}
	return narrowed([]*ir.Node{d}, n.In), nil
})

var _ = ir.Gradient(AdaptiveAvgPoolDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	g, err := n.Attrs.(AdaptiveAvgPoolAttrs).Geometry()
	if err == nil {
		err = staticSizes(n.In[0].Type, true)
	}
	if err != nil {
		return nil, err
	}
	x, d := n.In[0].Type.Shape, widened(dy[0])
	for i := 3 - g.Axes; i < 3; i++ {
		axis := g.axis(i)
		in, out := x[axis], n.Type.Shape[axis]
		eye := Reshape(identity(d.Graph, in, d.Type.DType), ir.Shape{ir.Static(1), in, in}) // width, channels
		pooled := AdaptiveAvgPool(eye, NWC, int(out.Const))
		d = adjoint(d, Reshape(pooled, ir.Shape{out, in}), axis)
	}
	return narrowed([]*ir.Node{d}, n.In), nil
})
