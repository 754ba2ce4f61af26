package kernels

import "github.com/rlx-go/rlx/core/ir"

// withLoops sets Shader.Loops of a shader made by mapped, given the iterations for one element. Elements that share a
// word are computed one after another by one invocation.
func (s Shader) withLoops(n *ir.Node, element func(c *Call) int) Shader {
	s.Loops = func(c *Call) int { return element(c) * element32(n) }
	return s
}

// element32 returns the number of elements of the result per 32-bit word.
func element32(n *ir.Node) int { return 4 / n.Type.DType.Size() }

// loop returns the iterations of a loop of that many rounds with inner iterations each, including the last evaluation
// of its condition.
func loop(rounds, inner int) int { return rounds*(1+inner) + 1 }
