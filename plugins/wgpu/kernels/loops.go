package kernels

import "github.com/rlx-go/rlx/core/ir"

// withLoops says how often the loops of a mapped shader go round for one element, as Shader.Loops counts; nodes with several
// elements in a word compute those one after another.
func (s Shader) withLoops(n *ir.Node, element func(c *Call) int) Shader {
	s.Loops = func(c *Call) int { return element(c) * element32(n) }
	return s
}

// element32 is the number of elements of the result in a word.
func element32(n *ir.Node) int { return 4 / n.Type.DType.Size() }

// loop is how often a loop with so many rounds of inner passes each is gone round, the last look at its condition included.
func loop(rounds, inner int) int { return rounds*(1+inner) + 1 }
