// Command rlx-backend-null is the smallest backend: it runs one op, neg, and loops of it. To write a backend, copy this
// folder, rename it, and add kernels.
package main

import "github.com/rlx-go/rlx/sdk/backend"

func main() { backend.Main(config) }

var config = backend.Config{
	Name:    "null",
	Version: "1",
	Kernels: []backend.Kernel{{
		Op:    "neg",
		Takes: []string{"(f32)"},
		Run: func(c *backend.Call) error {
			x, y := backend.View[float32](c.In[0]), backend.View[float32](c.Out[0])
			for i, v := range x {
				y[i] = -v
			}
			return nil
		},
	}, backend.NewLoop()}, // a long while or scan is one step
}
