// Command rlx-backend-example is a backend in a module of its own, which runs two ops with kernels on slices. Copy the
// folder, and see docs/backend-tutorial.md for the rest.
package main

import (
	"math"

	"github.com/rlx-go/rlx/sdk/backend"
)

func main() {
	backend.Main(backend.Config{
		Name:    "example",
		Version: "1",
		Kernels: []backend.Kernel{
			{Op: "relu", Takes: []string{"(f32)"}, Run: relu},
			{Op: "softmax", Takes: []string{"(f32) if axis = last"}, Run: softmax},
		},
	})
}

func relu(c *backend.Call) error {
	x, y := backend.View[float32](c.In[0]), backend.View[float32](c.Out[0])
	for i, v := range x {
		y[i] = max(v, 0)
	}
	return nil
}

func softmax(c *backend.Call) error {

	x, y := backend.View[float32](c.In[0]), backend.View[float32](c.Out[0])
	n := c.In[0].Shape[len(c.In[0].Shape)-1]
	for ; len(x) > 0; x, y = x[n:], y[n:] {
		most, sum := x[0], 0.0
		for _, v := range x[:n] {
			most = max(most, v)
		}
		for i, v := range x[:n] {
			e := math.Exp(float64(v - most))
			y[i], sum = float32(e), sum+e
		}
		for i := range n {
			y[i] = float32(float64(y[i]) / sum)
		}
	}
	return nil
}
