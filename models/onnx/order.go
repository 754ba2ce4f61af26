package onnx

import "github.com/rlx-go/rlx/models/onnx/onnxpb"

// ordered returns nodes so that each comes after those whose results it reads, and otherwise in the order of the file.
// ONNX requires such an order in the file, but tools such as the converter to f16 add nodes at the end, and ONNX
// Runtime accepts that. Nodes of a cycle stay where they are.
func ordered(list []*onnxpb.NodeProto) []*onnxpb.NodeProto {
	from := map[string]int{}
	for i, p := range list {
		for _, name := range p.GetOutput() {
			if _, twice := from[name]; name != "" && !twice {
				from[name] = i
			}
		}
	}
	sorted := true
	for i, p := range list {
		reads(p, func(name string) {
			if k, ok := from[name]; ok && k >= i {
				sorted = false
			}
		})
	}
	if sorted {
		return list
	}
	out := make([]*onnxpb.NodeProto, 0, len(list))
	seen := make([]bool, len(list))
	for first := range list {
		todo := []int{first} // a node is added when it is on top for the second time
		for len(todo) > 0 {
			i := todo[len(todo)-1]
			if i < 0 {
				out, todo = append(out, list[-i-1]), todo[:len(todo)-1]
				continue
			}
			if seen[i] {
				todo = todo[:len(todo)-1]
				continue
			}
			seen[i], todo[len(todo)-1] = true, -i-1
			reads(list[i], func(name string) {
				if k, ok := from[name]; ok && !seen[k] {
					todo = append(todo, k)
				}
			})
		}
	}
	return out
}

// reads calls f with the names that a node reads, and those that graphs in it read.
func reads(p *onnxpb.NodeProto, f func(name string)) {
	for _, name := range p.GetInput() {
		f(name)
	}
	graph := func(g *onnxpb.GraphProto) {
		for _, n := range g.GetNode() {
			reads(n, f)
		}
		for _, o := range g.GetOutput() {
			f(o.GetName())
		}
	}
	for _, a := range p.GetAttribute() {
		if a.GetG() != nil {
			graph(a.GetG())
		}
		for _, g := range a.GetGraphs() {
			graph(g)
		}
	}
}
