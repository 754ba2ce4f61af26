package views

import (
	"cmp"
	"math"
	"slices"

	"github.com/rlx-go/rlx/internal/views"
)

// neighbours is how many of the nearest points tell the distance of a point from the others.
const neighbours = 3

// spacing returns the root mean square distance of each point from its nearest neighbours.
func spacing(points []views.Point) []float64 {
	t := tree{points: points, order: make([]int, len(points))}
	for i := range t.order {
		t.order[i] = i
	}
	t.sort(0, len(points), 0)
	out := make([]float64, len(points))
	for i := range points {
		near := nearest{self: i}
		for k := range near.squares {
			near.squares[k] = math.Inf(1)
		}
		t.search(0, len(points), 0, &near)
		sum, n := 0.0, 0
		for _, d := range near.squares {
			if !math.IsInf(d, 0) {
				sum, n = sum+d, n+1
			}
		}
		out[i] = math.Sqrt(sum / float64(max(n, 1)))
	}
	return out
}

// tree is a tree of points that are divided in the middle along one axis after the other. A part of order is a node,
// with its point in the middle.
type tree struct {
	points []views.Point
	order  []int
}

func (t *tree) sort(from, to, axis int) {
	if to-from < 2 {
		return
	}
	slices.SortFunc(t.order[from:to], func(a, b int) int {
		return cmp.Or(cmp.Compare(t.points[a].At[axis], t.points[b].At[axis]), cmp.Compare(a, b))
	})
	middle := (from + to) / 2
	t.sort(from, middle, (axis+1)%3)
	t.sort(middle+1, to, (axis+1)%3)
}

// nearest has the squared distances of a point from its nearest neighbours, in order.
type nearest struct {
	self    int
	squares [neighbours]float64
}

func (n *nearest) add(d float64) {
	for k := range n.squares {
		if d < n.squares[k] {
			d, n.squares[k] = n.squares[k], d
		}
	}
}

func (t *tree) search(from, to, axis int, n *nearest) {
	if from >= to {
		return
	}
	middle := (from + to) / 2
	at, self := t.points[t.order[middle]].At, t.points[n.self].At
	if t.order[middle] != n.self {
		d := 0.0
		for k := range at {
			d += (at[k] - self[k]) * (at[k] - self[k])
		}
		n.add(d)
	}
	away := self[axis] - at[axis]
	first, second := [2]int{from, middle}, [2]int{middle + 1, to}
	if away > 0 {
		first, second = second, first
	}
	t.search(first[0], first[1], (axis+1)%3, n)
	if away*away < n.squares[neighbours-1] {
		t.search(second[0], second[1], (axis+1)%3, n)
	}
}
