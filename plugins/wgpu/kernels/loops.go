package kernels

import "github.com/rlx-go/rlx/core/ir"

// withLoops sets Shader.Loops of a mapped shader from the iterations for one element. Elements that share a word are computed one
// after another.
func (s Shader) withLoops(n *ir.Node, element func(c *Call) int) Shader {
	s.Loops = func(c *Call) int { return element(c) * element32(n) }
	return s
}

// element32 is the number of elements of the result in a word.
func element32(n *ir.Node) int { return 4 / n.Type.DType.Size() }

// loop is the number of iterations of a loop of rounds with inner iterations each, counting the last evaluation of its condition.
func loop(rounds, inner int) int { return rounds*(1+inner) + 1 }
