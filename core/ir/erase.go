package ir

import "github.com/rlx-go/rlx/core/tensor"

// erased returns a definition whose functions take attributes as any. They must have the type A. The literals without
// names of fields make sure that none is forgotten.
func erased[A any](d Def[A]) Def[any] {
	var e Def[any]
	if d.View != nil {
		e.View = func(a any, in, out Type) (int64, bool) { return d.View(a.(A), in, out) }
	}
	if d.Requires != nil {
		e.Requires = func(a any, in []Type, out Type) []Equality { return d.Requires(a.(A), in, out) }
	}
	if d.Discontinuous != nil {
		e.Discontinuous = func(a any, out Type) bool { return d.Discontinuous(a.(A), out) }
	}
	if d.Unread != nil {
		e.Unread = func(a any) []Unread { return d.Unread(a.(A)) }
	}
	if d.Infer != nil {
		e.Infer = func(s Sig[any]) (Type, error) { return d.Infer(Sig[A]{s.Attrs.(A), s.In, s.Declared, s.Syms}) }
	}
	if d.Eval != nil {
		e.Eval = func(a any, in []*tensor.Array, out *tensor.Array) error { return d.Eval(a.(A), in, out) }
	}
	if d.EvalBodies != nil {
		e.EvalBodies = func(a any, run RunBody, in []*tensor.Array, out *tensor.Array) error {
			return d.EvalBodies(a.(A), run, in, out)
		}
	}
	if d.Memory != nil {
		e.Memory = func(s Sig[any], out Type) int64 {
			return d.Memory(Sig[A]{s.Attrs.(A), s.In, s.Declared, s.Syms}, out)
		}
	}
	if d.FLOPs != nil {
		e.FLOPs = func(a any, in []Type, out Type) int64 { return d.FLOPs(a.(A), in, out) }
	}
	if d.Tol != nil {
		e.Tol = func(a any, in []Type, out Type) Tolerance { return d.Tol(a.(A), in, out) }
	}
	return Def[any]{
		d.Name, d.Doc, d.Operands, d.Block, d.Declared, d.Elementwise, d.Commutative, e.View, d.AlwaysView, e.Requires,
		d.InPlace, d.Effects, d.AsI32, e.Discontinuous, d.Packed, d.Checked, e.Unread, d.Updates, e.Infer, e.Eval,
		e.EvalBodies, e.Memory, e.FLOPs, e.Tol, erasedCases(d.Cases),
	}
}

// erasedTuple is erased for ops with several results.
func erasedTuple[A any](d TupleDef[A]) TupleDef[any] {
	var e TupleDef[any]
	if d.Called != nil {
		e.Called = func(a any) string { return d.Called(a.(A)) }
	}
	if d.Infer != nil {
		e.Infer = func(s Sig[any]) ([]Type, error) { return d.Infer(Sig[A]{s.Attrs.(A), s.In, s.Declared, s.Syms}) }
	}
	if d.Eval != nil {
		e.Eval = func(a any, in, out []*tensor.Array) error { return d.Eval(a.(A), in, out) }
	}
	if d.EvalBodies != nil {
		e.EvalBodies = func(a any, run RunBody, in, out []*tensor.Array) error {
			return d.EvalBodies(a.(A), run, in, out)
		}
	}
	if d.Memory != nil {
		e.Memory = func(s Sig[any], out []Type) int64 {
			return d.Memory(Sig[A]{s.Attrs.(A), s.In, s.Declared, s.Syms}, out)
		}
	}
	if d.FLOPs != nil {
		e.FLOPs = func(a any, in, out []Type) int64 { return d.FLOPs(a.(A), in, out) }
	}
	if d.Tol != nil {
		e.Tol = func(a any, in, out []Type) []Tolerance { return d.Tol(a.(A), in, out) }
	}
	return TupleDef[any]{
		d.Name, d.Doc, d.Results, d.Operands, d.Block, d.InPlace, d.Late, e.Called, d.Checked, e.Infer, e.Eval,
		e.EvalBodies, d.Nested, d.Packed, d.Updates, e.Memory, e.FLOPs, e.Tol, erasedCases(d.Cases),
	}
}

// erasedCases is never nil.
func erasedCases[A any](cases func() []Case[A]) func() []Case[any] {
	return func() (out []Case[any]) {
		if cases != nil {
			for _, c := range cases() {
				out = append(out, Case[any]{c.Attrs, c.In, c.Out, c.Fill, c.Base})
			}
		}
		return out
	}
}
