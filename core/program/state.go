package program

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// StateTensor is a tensor that a program keeps between runs.
type StateTensor struct {
	Name   string
	Type   ir.Type // has a static shape
	Offset int64   // in the state space, in bytes
	Init   float64 // initial value of every element
}

// Bytes returns the size of the tensor in bytes.
func (t StateTensor) Bytes() int64 { return t.Type.Bytes(nil) }

// Fill sets b to the initial value. b holds the whole tensor or some of its elements.
func (t StateTensor) Fill(b []byte) {
	one := tensor.NewArray(t.Type.DType, 1)
	if one.Floats != nil {
		one.Floats[0] = t.Init
	} else {
		one.Ints[0] = int64(t.Init)
	}
	pattern := one.Tensor().Data
	for n := copy(b, pattern); n > 0 && n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// States returns the tensors that the program keeps between runs, sorted by offset.
func (p *Program) States() []StateTensor {
	var out []StateTensor
	for _, n := range p.Graph.States() {
		out = append(out, StateTensor{n.Name, n.Type, p.Places[n.ID].Offset, n.Attrs.(ir.StateAttrs).Init})
	}
	slices.SortFunc(out, func(a, b StateTensor) int { return cmp.Compare(a.Offset, b.Offset) })
	return out
}

// Updates reports whether the program writes to its state.
func (p *Program) Updates() bool {
	return slices.ContainsFunc(p.Graph.Nodes, func(n *ir.Node) bool { return n.Op.Updates })
}

// JoinStates returns the states of several programs of one model, sorted by offset, and the size of the state space in
// bytes. It returns an error if the programs disagree about a state, or if two states overlap.
func JoinStates(programs ...*Program) (list []StateTensor, size int64, err error) {
	byName := map[string]StateTensor{}
	for _, p := range programs {
		for _, t := range p.States() {
			if o, ok := byName[t.Name]; !ok {
				list, byName[t.Name] = append(list, t), t
			} else if !o.Type.Equal(t.Type) || o.Offset != t.Offset || o.Init != t.Init {
				return nil, 0,
					fmt.Errorf(
						"state %.80q is %v at %d, first %v, in one program and %v at %d, first %v, in %s for %s; want the same",
						t.Name, o.Type, o.Offset, o.Init, t.Type, t.Offset, t.Init, p.Method, p.Target)
			}
		}
		if p.StateSize > 0 {
			if size > 0 && size != p.StateSize {
				return nil, 0,
					fmt.Errorf("the state space has %d bytes in one program and %d in %s for %s; want the same", size,
						p.StateSize, p.Method, p.Target)
			}
			size = p.StateSize
		}
	}
	slices.SortFunc(list, func(a, b StateTensor) int { return cmp.Compare(a.Offset, b.Offset) })
	for i, t := range list[min(1, len(list)):] {
		if o := list[i]; t.Offset-o.Offset < o.Bytes() || t.Offset == o.Offset {
			return nil, 0, fmt.Errorf("state %.80q begins at %d of the state space, inside %.80q or where that begins",
				t.Name, t.Offset, o.Name)
		}
	}
	return list, size, nil
}

// InitState returns a new state space of size bytes that holds the initial values of the tensors.
func InitState(list []StateTensor, size int64) []byte {
	b := tensor.AlignedBytes(int(size))
	for _, t := range list {
		t.Fill(b[t.Offset : t.Offset+t.Bytes()])
	}
	return b
}
