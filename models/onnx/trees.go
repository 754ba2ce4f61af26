package onnx

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// This file has the sums over trees of ai.onnx.ml, as skl2onnx and others write them for decision trees, random forests
// and gradient boosting. All rows go down all trees at the same time, a level with each step: the position in a tree is
// an index into tables of nodes, and a leaf leads to itself.

var (
	_ = ranks("1-2", "ai.onnx.ml.TreeEnsembleRegressor", "ai.onnx.ml.TreeEnsembleClassifier")
	_ = registerIn(ml, "TreeEnsembleRegressor", conversion{since: 1, convert: treeRegressor,
		note: "LOGISTIC applies to one target, too, which ONNX Runtime leaves out"})
	_ = registerIn(ml, "TreeEnsembleClassifier", conversion{since: 1, convert: treeClassifier,
		note: "labels that are text are refused"})
)

// The bounds of trees.
const (
	maxTreeNodes = 1 << 22
	maxTreeDepth = 1 << 10
)

// forest has the tables of the nodes of all trees.
type forest struct {
	features, values, modes, missing []float64
	next                             []float64 // of node i: 2*i where its condition is false, and 2*i+1
	roots                            []float64
	depth                            int
	at                               map[[2]int64]int // by the numbers of the tree and of the node
}

// The modes of nodes. A leaf has a condition, too, which does not matter.
var treeModes = map[string]func(a, b *ir.Node) *ir.Node{"BRANCH_LEQ": op.Le, "BRANCH_LT": op.Lt, "BRANCH_GTE": op.Ge,
	"BRANCH_GT": op.Gt, "BRANCH_EQ": op.Eq, "BRANCH_NEQ": op.Ne}

// treeOrder numbers the modes.
var treeOrder = []string{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"}

// mlInts returns a list of integers, which must have that size unless it is optional and absent.
func (n *node) mlInts(name string, size int, optional bool) []int64 {
	l := n.attr(name).GetInts()
	if len(l) != size && !(optional && len(l) == 0) {
		n.fail("%s has %d numbers; want %d", name, len(l), size)
	}
	return l
}

// mlFloats returns a list of floats, or that of the attribute with _as_tensor in its name.
func (n *node) mlFloats(name string) []float64 {
	if n.attr(name+"_as_tensor") != nil {
		a := n.tensorAttr(name + "_as_tensor")
		out := make([]float64, a.Len())
		for i := range out {
			out[i] = a.At(i)
		}
		return out
	}
	var out []float64
	for _, v := range n.attr(name).GetFloats() {
		out = append(out, float64(v))
	}
	return out
}

// forest reads the nodes of the trees, whose rows have the given number of features.
func (n *node) forest(features int) *forest {
	ids := n.attr("nodes_nodeids").GetInts()
	size := len(ids)
	if size == 0 || size > maxTreeNodes {
		n.fail("has %d tree nodes; allowed are 1 to %d", size, maxTreeNodes)
	}
	trees, columns := n.mlInts("nodes_treeids", size, false), slices.Clone(n.mlInts("nodes_featureids", size, false))
	yes, no := n.mlInts("nodes_truenodeids", size, false), n.mlInts("nodes_falsenodeids", size, false)
	tracks := n.mlInts("nodes_missing_value_tracks_true", size, true)
	modes, values := n.attr("nodes_modes").GetStrings(), n.mlFloats("nodes_values")
	if len(modes) != size || len(values) != size {
		n.fail("nodes_modes has %d elements and nodes_values %d; want %d", len(modes), len(values), size)
	}
	f := &forest{values: values, missing: make([]float64, size), at: map[[2]int64]int{}}
	for i, id := range ids {
		key := [2]int64{trees[i], id}
		if _, twice := f.at[key]; twice {
			n.fail("tree %d has two nodes %d", trees[i], id)
		}
		f.at[key] = i
	}
	child := map[int]bool{}
	for i := range ids {
		mode := slices.Index(treeOrder, string(modes[i]))
		leaf := string(modes[i]) == "LEAF"
		if mode < 0 && !leaf {
			n.fail("mode of tree node %d is %q; allowed are LEAF and %v", i, modes[i], treeOrder)
		}
		to := [2]int{i, i}
		if !leaf {
			for k, id := range []int64{no[i], yes[i]} {
				j, ok := f.at[[2]int64{trees[i], id}]
				if !ok || child[j] || j == i {
					n.fail("tree %d: node %d leads to node %d, which is missing or has another parent", trees[i], ids[i],
						id)
				}
				to[k], child[j] = j, true
			}
			if columns[i] < 0 || columns[i] >= int64(features) {
				n.fail("tree %d: node %d reads feature %d; the input has %d", trees[i], ids[i], columns[i], features)
			}
		} else {
			columns[i] = 0
		}
		if len(tracks) > 0 {
			f.missing[i] = float64(tracks[i])
		}
		f.features, f.modes = append(f.features, float64(columns[i])), append(f.modes, float64(max(mode, 0)))
		f.next = append(f.next, float64(to[0]), float64(to[1]))
	}
	f.findDepth(n, child)
	return f
}

// findDepth finds the roots, and the largest number of steps from one to a leaf.
func (f *forest) findDepth(n *node, child map[int]bool) {
	var level []int
	for i := range f.features {
		if !child[i] {
			f.roots, level = append(f.roots, float64(i)), append(level, i)
		}
	}
	for len(level) > 0 {
		var below []int
		for _, i := range level {
			if no, yes := int(f.next[2*i]), int(f.next[2*i+1]); no != i {
				below = append(below, no, yes)
			}
		}
		if level = below; len(level) == 0 {
			return
		}
		if f.depth++; f.depth > maxTreeDepth {
			n.fail("has trees of more than %d levels", maxTreeDepth)
		}
	}
	if len(f.roots) == 0 {
		n.fail("has no root: each tree node is a child of another")
	}
}

// table returns numbers as a vector of type d.
func (n *node) table(d dtype.DType, list []float64) *ir.Node {
	a := tensor.NewArray(d, len(list))
	for i, v := range list {
		if a.Floats != nil {
			a.Floats[i] = v
		} else {
			a.Ints[i] = int64(v)
		}
	}
	return n.b.at(made(rounded(a)))
}

// leaves returns the numbers of the leaves that the rows reach, [rows, trees].
func (n *node) leaves(f *forest, x *ir.Node) *ir.Node {
	rows, width := x.Type.Shape[0], x.Type.Shape[1]
	trees := ir.Static(int64(len(f.roots)))
	at := op.Expand(op.Reshape(n.table(dtype.I32, f.roots), ir.Shape{ir.Static(1), trees}), ir.Shape{rows, trees})
	first := op.Mul(n.along(ir.Shape{rows, ir.Static(1)}, 0), n.sizeNode(width, dtype.I64))
	flat := n.flat(x)
	features, values := n.table(dtype.I64, f.features), n.table(x.Type.DType, f.values)
	modes, missing, next := n.table(dtype.I32, f.modes), n.table(dtype.I32, f.missing), n.table(dtype.I32, f.next)
	used := slices.Compact(slices.Sorted(slices.Values(f.modes)))
	for range f.depth {
		v := op.Gather(flat, op.Add(first, op.Gather(features, at, 0)), 0)
		limit := op.Gather(values, at, 0)
		var yes *ir.Node
		for _, mode := range used {
			c := treeModes[treeOrder[int(mode)]](v, limit)
			if yes == nil {
				yes = c
				continue
			}
			of := op.Gather(modes, at, 0)
			yes = op.Where(op.Eq(of, number(mode, of)), c, yes)
		}
		if slices.Contains(f.missing, 1) {
			tracks := op.Gather(missing, at, 0)
			yes = op.Or(yes, op.And(op.Ne(v, v), op.Ne(tracks, number(0, tracks))))
		}
		at = op.Gather(next, op.Add(op.Mul(at, number(2, at)), op.Cast(yes, dtype.I32)), 0)
	}
	return at
}

// rowsOfFeatures returns input 0 as a matrix of floats.
func (n *node) rowsOfFeatures() *ir.Node {
	x := n.x(0)
	if d := x.Type.DType; d != dtype.F32 && d != dtype.F64 {
		x = cast(x, dtype.F32)
	}
	if x.Type.Rank() == 1 {
		x = op.Reshape(x, ir.Shape{ir.Static(1), x.Type.Shape[0]})
	}
	return x
}

// treeScores returns what the trees give each of count targets, [rows, count].
func (n *node) treeScores(of string, count int) *ir.Node {
	x := n.rowsOfFeatures()
	f := n.forest(n.features(x))
	weights := n.mlFloats(of + "_weights")
	trees, ids := n.mlInts(of+"_treeids", len(weights), false), n.mlInts(of+"_nodeids", len(weights), false)
	targets := n.mlInts(of+"_ids", len(weights), false)
	g := n.newLeafWeights(dtype.F32, f, count)
	for k, w := range weights {
		i, ok := f.at[[2]int64{trees[k], ids[k]}]
		if !ok {
			n.fail("%s_weights has a number for node %d of tree %d; there is no such node", of, ids[k], trees[k])
		}
		g.add(i, targets[k], w)
	}
	return g.scores(f, x, n.str("aggregate_function", "SUM"))
}

// leafWeights are the numbers that each leaf adds to each target, [nodes, count].
type leafWeights struct {
	n     *node
	typ   dtype.DType
	count int
	sums  []float64
	given []bool
}

func (n *node) newLeafWeights(t dtype.DType, f *forest, count int) *leafWeights {
	size := len(f.features)
	if int64(count)*int64(size) > 8*maxTreeNodes {
		n.fail("has %d tree nodes and %d targets; allowed is a product of up to %d", size, count, 8*maxTreeNodes)
	}
	return &leafWeights{n, t, count, make([]float64, size*count), make([]bool, size*count)}
}

// add adds a weight of node i.
func (g *leafWeights) add(i int, target int64, weight float64) {
	if target < 0 || target >= int64(g.count) {
		g.n.fail("a leaf has a weight for target %d; allowed are 0 to %d", target, g.count-1)
	}
	k := i*g.count + int(target)
	g.sums[k] += weight
	g.given[k] = true
}

// scores returns what the leaves that the rows of x reach give each target, [rows, count]. The least and the largest
// are those of the leaves that give something, and 0 if there are none.
func (g *leafWeights) scores(f *forest, x *ir.Node, how string) *ir.Node {
	none := map[string]float64{"MIN": math.Inf(1), "MAX": math.Inf(-1)}[how]
	for k, given := range g.given {
		if !given {
			g.sums[k] = none
		}
	}
	table := op.Reshape(g.n.table(g.typ, g.sums), ir.ShapeOf(int64(len(f.features)), int64(g.count)))
	y := op.Gather(table, g.n.leaves(f, x), 0) // [rows, trees, count]
	switch how {
	case "SUM":
		return op.ReduceSum(y, false, 1)
	case "AVERAGE":
		return op.ReduceMean(y, false, 1)
	case "MIN":
		y = op.ReduceMin(y, false, 1)
	case "MAX":
		y = op.ReduceMax(y, false, 1)
	default:
		g.n.fail("aggregate_function is %s; allowed are SUM, AVERAGE, MIN and MAX", how)
	}
	return op.Where(op.Eq(y, number(none, y)), number(0, y), y)
}

// base adds base_values to scores, if the node has them.
func (n *node) base(y *ir.Node, count int) *ir.Node {
	list := n.mlFloats("base_values")
	if len(list) == 0 {
		return y
	}
	if len(list) != count {
		n.fail("base_values has %d numbers; want %d", len(list), count)
	}
	return op.Add(y, n.table(y.Type.DType, list))
}

func treeRegressor(n *node) []*value {
	count := n.int("n_targets", 1)
	if count < 1 || count > maxTreeNodes {
		n.fail("n_targets is %d; allowed are 1 to %d", count, maxTreeNodes)
	}
	return one(n.transformed(n.base(n.treeScores("target", count), count), n.str("post_transform", "NONE")))
}

// treeClassifier returns the label and the scores of each row. If the trees give a number for only one of two classes,
// it is the score s of the second. The first then has 1-s if no weight is negative, and the limit is 1/2, else -s, and
// the limit is 0, as in ONNX Runtime.
func treeClassifier(n *node) []*value {
	labels := n.intLabels("classlabels_int64s")
	how := n.str("post_transform", "NONE")
	given := slices.Compact(slices.Sorted(slices.Values(n.attr("class_ids").GetInts())))
	y := n.treeScores("class", len(labels))
	if len(labels) == 2 && len(given) == 1 {
		s := op.Narrow(y, 1, int(given[0]), 1)
		if list := n.mlFloats("base_values"); len(list) > 0 {
			s = op.Add(s, n.table(s.Type.DType, list[len(list)-1:]))
		}
		other := op.Neg(s)
		if slices.Min(append(n.mlFloats("class_weights"), math.Inf(1))) >= 0 {
			other = op.Sub(number(1, s), s)
			n.transformed(s, how) // refuses those that are not supported
			how = "NONE"
		} else if how != "LOGISTIC" {
			n.transformed(s, how)
			how = "NONE"
		}
		y = op.Concat(1, other, s)
	} else {
		y = n.base(y, len(labels))
	}
	best := cast(op.ArgMax(y, 1, false), dtype.I32)
	return many(n.labelled(labels, best), n.transformed(y, how))
}
