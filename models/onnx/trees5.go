package onnx

import "math"

// This file has the op of trees of ai.onnx.ml 5, which numbers inner nodes and leaves separately and has nodes that
// look a feature up in a set.

var (
	_ = ranks("2", "ai.onnx.ml.TreeEnsemble")
	_ = registerIn(ml, "TreeEnsemble", conversion{since: 5, convert: treeEnsemble,
		note: "post_transform 1 is SOFTMAX and 2 LOGISTIC, as ONNX says; ONNX Runtime swaps them"})
)

// branchMember is the mode of a node whose condition is that the feature is in a set. The modes before it are those of
// treeOrder.
const branchMember = 6

// The names of the numbers that opset 5 has in place of names.
var (
	treeAggregates = []string{"AVERAGE", "SUM", "MIN", "MAX"}
	treeTransforms = []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}
)

// enum returns the name of the number that is an attribute.
func (n *node) enum(name string, names []string, otherwise int64) string {
	i := n.int(name, otherwise)
	if i < 0 || i >= len(names) {
		n.fail("%s is %d; allowed are 0 to %d", name, i, len(names)-1)
	}
	return names[i]
}

func treeEnsemble(n *node) []*value {
	count := n.int("n_targets", 1)
	if count < 1 || count > maxTreeNodes {
		n.fail("n_targets is %d; allowed are 1 to %d", count, maxTreeNodes)
	}
	x := n.rowsOfFeatures()
	weights := n.tensorAttr("leaf_weights")
	f, first := n.forest5(n.features(x), weights.Len())
	g := n.newLeafWeights(x.Type.DType, f, count)
	for i, target := range n.mlInts("leaf_targetids", weights.Len(), false) {
		g.add(first+i, target, weights.At(i))
	}
	y := g.scores(f, x, n.enum("aggregate_function", treeAggregates, 1))
	y = n.transformed(y, n.enum("post_transform", treeTransforms, 0))
	return one(cast(y, n.typeOf(0).DType))
}

// forest5 reads the trees. first is the number of the first leaf; those of inner nodes are less.
func (n *node) forest5(features, leaves int) (f *forest, first int) {
	modes, splits := n.tensorAttr("nodes_modes"), n.tensorAttr("nodes_splits")
	size := modes.Len()
	if size == 0 || leaves == 0 || size > maxTreeNodes || leaves > maxTreeNodes {
		n.fail("has %d inner nodes and %d leaves; allowed are 1 to %d", size, leaves, maxTreeNodes)
	}
	if splits.Len() != size {
		n.fail("nodes_splits has %d elements; want %d", splits.Len(), size)
	}
	columns := n.mlInts("nodes_featureids", size, false)
	tracks := n.mlInts("nodes_missing_value_tracks_true", size, true)
	sets := n.memberships(size)
	f = &forest{}
	at := make([]int, size) // the first of the nodes that stand for inner node i
	for i := range size {
		at[i] = len(f.features)
		mode := int64(modes.At(i))
		if mode < 0 || mode > branchMember {
			n.fail("mode of node %d is %d; allowed are 0 to %d", i, mode, branchMember)
		}
		if columns[i] < 0 || columns[i] >= int64(features) {
			n.fail("node %d reads feature %d; the input has %d", i, columns[i], features)
		}
		limits := []float64{splits.At(i)}
		if mode == branchMember { // one node for each member: equal, or else the next
			if len(sets) == 0 {
				n.fail("membership_values has no set for node %d", i)
			}
			limits, sets, mode = sets[0], sets[1:], 4
		}
		for _, limit := range limits {
			track := 0.0
			if len(tracks) > 0 {
				track = float64(tracks[i])
			}
			f.add(float64(columns[i]), limit, float64(mode), track)
		}
		if len(f.features)+leaves > maxTreeNodes {
			n.fail("has more than %d nodes, counting the members of sets", maxTreeNodes)
		}
	}
	first = len(f.features)
	for range leaves {
		f.add(0, 0, 0, 0)
	}
	n.connect(f, append(at, first))
	return f, first
}

// add adds a node that leads to itself.
func (f *forest) add(feature, limit, mode, missing float64) {
	i := float64(len(f.features))
	f.features, f.values, f.modes = append(f.features, feature), append(f.values, limit), append(f.modes, mode)
	f.missing, f.next = append(f.missing, missing), append(f.next, i, i)
}

// memberships returns the sets of values, which end with NaN in the attribute. Each has at least one element, NaN if it
// is empty, to which nothing is equal.
func (n *node) memberships(most int) (sets [][]float64) {
	if n.attr("membership_values") == nil {
		return nil
	}
	list := n.tensorAttr("membership_values")
	var set []float64
	for i := range list.Len() {
		v := list.At(i)
		if !math.IsNaN(v) {
			set = append(set, v)
			continue
		}
		if len(set) == 0 {
			set = []float64{v}
		}
		sets, set = append(sets, set), nil
		if len(sets) > most {
			n.fail("membership_values has more than %d sets, and there are only %d nodes", most, most)
		}
	}
	if len(set) > 0 {
		sets = append(sets, set)
	}
	return sets
}

// connect sets the ways from node to node, the roots and the depth. Inner node i is nodes at[i] to at[i+1]-1 of the
// forest, and the leaves follow.
func (n *node) connect(f *forest, at []int) {
	size := len(at) - 1
	first := at[size]
	leaves := len(f.features) - first
	attr := func(name string) []int64 { return n.mlInts(name, size, false) }
	ids := [2][]int64{attr("nodes_falsenodeids"), attr("nodes_truenodeids")}
	leaf := [2][]int64{attr("nodes_falseleafs"), attr("nodes_trueleafs")}
	type step struct{ node, depth int }
	var todo []step
	seen := make([]bool, size)
	visit := func(id int64, depth int) int {
		if id < 0 || id >= int64(size) || seen[id] {
			n.fail("leads to node %d, which is missing or has another parent", id)
		}
		seen[id] = true
		todo = append(todo, step{int(id), depth})
		return at[id]
	}
	for _, root := range n.attr("tree_roots").GetInts() {
		f.roots = append(f.roots, float64(visit(root, 0)))
	}
	if len(f.roots) == 0 {
		n.fail("tree_roots is empty; want at least one node")
	}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		depth := s.depth + at[s.node+1] - at[s.node]
		f.depth = max(f.depth, depth)
		if depth > maxTreeDepth {
			n.fail("has trees of more than %d levels, counting the members of sets", maxTreeDepth)
		}
		var to [2]int
		for k := range to {
			switch id := ids[k][s.node]; {
			case leaf[k][s.node] == 0:
				to[k] = visit(id, depth)
			case id < 0 || id >= int64(leaves):
				n.fail("node %d leads to leaf %d; allowed are 0 to %d", s.node, id, leaves-1)
			default:
				to[k] = first + int(id)
			}
		}
		for i := at[s.node]; i < at[s.node+1]; i++ {
			f.next[2*i], f.next[2*i+1] = float64(i+1), float64(to[1])
		}
		f.next[2*at[s.node+1]-2] = float64(to[0])
	}
}
