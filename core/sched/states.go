package sched

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// States is the layout of a model's states in the state space.
type States struct {
	nodes map[string]*ir.Node
	at    map[string]int64
	size  int64
}

// StateLayout assigns a range of the state space to every state of the graphs, which are the methods of a model.
// Methods share states of the same name. These must have the same type and initial value.
func StateLayout(graphs ...*ir.Graph) (*States, error) {
	s := &States{nodes: map[string]*ir.Node{}, at: map[string]int64{}}
	for _, g := range graphs {
		for _, n := range g.States() {
			if old := s.nodes[n.Name]; old == nil {
				s.nodes[n.Name], s.at[n.Name] = n, s.size
				s.size += max(program.AlignUp(g.Syms.MaxBytes(n.Type)), program.Align)
			} else if !old.Type.Equal(n.Type) || old.Attrs != n.Attrs {
				return nil, fmt.Errorf("state %s is %v %s in one method and %v %s in another; want the same", n.Label(),
					old.Type, old.AttrText(), n.Type, n.AttrText())
			}
		}
	}
	return s, nil
}

// Find returns the offset of a state and the size of the state space. It can be used as Options.State.
func (s *States) Find(name string) (offset, size int64, ok bool) {
	offset, ok = s.at[name]
	return offset, s.size, ok
}
