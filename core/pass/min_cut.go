package pass

import "math"

// network is a directed graph with capacities, for minimum cuts. Vertex 0 is the source, vertex 1 the sink.
type network struct {
	edges []edge  // an edge and its reverse are neighbours
	from  [][]int // numbers of the edges that leave each vertex
}

type edge struct {
	to   int
	left int64 // capacity that is left
}

const (
	source = iota
	sink

	unlimited = math.MaxInt64 / 4
)

func newNetwork(vertices int) *network { return &network{from: make([][]int, vertices)} }

func (w *network) vertex() int {
	w.from = append(w.from, nil)
	return len(w.from) - 1
}

func (w *network) edge(a, b int, capacity int64) {
	if a == b || capacity == 0 {
		return
	}
	w.from[a] = append(w.from[a], len(w.edges))
	w.from[b] = append(w.from[b], len(w.edges)+1)
	w.edges = append(w.edges, edge{b, capacity}, edge{a, 0})
}

// cut returns, for each vertex, whether it is on the sink's side of the minimum cut with the fewest vertices on that
// side. It uses Dinic's algorithm.
func (w *network) cut() []bool {
	level := make([]int, len(w.from))
	for w.levels(level, source, func(e int) int64 { return w.edges[e].left }); level[sink] >= 0; {
		next := make([]int, len(w.from))
		for w.augment(level, next) {
		}
		w.levels(level, source, func(e int) int64 { return w.edges[e].left })
	}
	w.levels(level, sink, func(e int) int64 { return w.edges[e^1].left })
	side := make([]bool, len(level))
	for v, l := range level {
		side[v] = l >= 0
	}
	return side
}

// levels sets the distance of each vertex from start along edges for which open is not 0, or -1.
func (w *network) levels(level []int, start int, open func(e int) int64) {
	for v := range level {
		level[v] = -1
	}
	level[start] = 0
	queue := []int{start}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, e := range w.from[v] {
			if to := w.edges[e].to; open(e) > 0 && level[to] < 0 {
				level[to] = level[v] + 1
				queue = append(queue, to)
			}
		}
	}
}

// augment sends more along one shortest path. It reports whether there was one. next has the first edge of each vertex
// that may still lead to the sink.
func (w *network) augment(level, next []int) bool {
	var path []int
	for v := source; v != sink; {
		if next[v] == len(w.from[v]) {
			if v == source {
				return false
			}
			last := path[len(path)-1]
			path = path[:len(path)-1]
			v = w.edges[last^1].to
			next[v]++
			continue
		}
		e := w.from[v][next[v]]
		if w.edges[e].left == 0 || level[w.edges[e].to] != level[v]+1 {
			next[v]++
			continue
		}
		path = append(path, e)
		v = w.edges[e].to
	}
	least := int64(unlimited)
	for _, e := range path {
		least = min(least, w.edges[e].left)
	}
	for _, e := range path {
		w.edges[e].left -= least
		w.edges[e^1].left += least
	}
	return true
}
