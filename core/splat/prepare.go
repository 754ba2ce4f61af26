package splat

import (
	"cmp"
	"fmt"
	"slices"
)

// Grid divides an image into square tiles.
type Grid struct{ Width, Height, Tile int }

// Columns and Rows return the numbers of tiles.
func (g Grid) Columns() int { return (g.Width + g.Tile - 1) / g.Tile }
func (g Grid) Rows() int    { return (g.Height + g.Tile - 1) / g.Tile }

// Prepared is a scene as one camera sees it.
type Prepared struct {
	Forms  []Form
	Colors [][4]float64 // with the opacity
	Order  []int32      // the splats that some pixel may show, the nearest first; equally near ones in their order
}

// Prepare projects all splats of a scene, which was checked.
func Prepare[T Float](v *View, s *Scene[T]) *Prepared {
	p := &Prepared{Forms: make([]Form, s.N), Colors: make([][4]float64, s.N)}
	distance := make([]float64, s.N)
	for i := range s.N {
		var seen bool
		if distance[i], seen = PrepareOne(v, s, i, &p.Forms[i], &p.Colors[i]); seen {
			p.Order = append(p.Order, int32(i))
		}
	}
	slices.SortStableFunc(p.Order, func(i, j int32) int { return cmp.Compare(distance[i], distance[j]) })
	return p
}

// PrepareOne projects splat i. seen is false if no pixel can show it; its form and colour are zero then.
func PrepareOne[T Float](v *View, s *Scene[T], i int, f *Form, color *[4]float64) (distance float64, seen bool) {
	*f, *color = Form{}, [4]float64{}
	var g Splat
	if !Project(v, s, i, &g) {
		return 0, false
	}
	v.Form(&g, f, nil)
	c := f.Conic()
	top, bottom := c.Rows(v.Height)
	left, right := c.Columns(top, bottom, v.Width)
	if !f.fits() || top >= bottom || left >= right {
		*f = Form{}
		return 0, false
	}
	rgb := Color(s, i, g.Rel)
	*color = [4]float64{rgb[0], rgb[1], rgb[2], g.Opacity}
	return g.Distance, true
}

// Lists sets the splats of each tile in order: those of tile t are list[ranges[2*t]:ranges[2*t+1]], and the rest of the
// list is -1. A list that is too short gives an error.
func (p *Prepared) Lists(g Grid, list, ranges []int32) error {
	columns := g.Columns()
	each := func(f func(tile int, i int32)) {
		for _, i := range p.Order {
			c := p.Forms[i].Conic()
			top, bottom := c.Rows(g.Height)
			for row := top / g.Tile; row*g.Tile < bottom; row++ {
				left, right := c.Columns(row*g.Tile, min(row*g.Tile+g.Tile, g.Height), g.Width)
				for column := left / g.Tile; column*g.Tile < right; column++ {
					f(row*columns+column, i)
				}
			}
		}
	}
	clear(ranges)
	need := 0
	each(func(tile int, _ int32) {
		ranges[2*tile+1]++
		need++
	})
	if need > len(list) {
		return fmt.Errorf("the tiles list %d splats, and max_list_entries is %d; want at least as many, or 0 for a list that always suffices",
			need, len(list))
	}
	at := int32(0)
	for t := 0; t < len(ranges); t += 2 {
		count := ranges[t+1]
		ranges[t], ranges[t+1] = at, at
		at += count
	}
	each(func(tile int, i int32) {
		list[ranges[2*tile+1]] = i
		ranges[2*tile+1]++
	})
	for k := need; k < len(list); k++ {
		list[k] = -1
	}
	return nil
}

// CheckLists returns an error for lists that Lists cannot have made. Entries that belong to no tile are -1.
func CheckLists[T int32 | int64](list, ranges []T, splats int) error {
	for k, i := range list {
		if i < -1 || int64(i) >= int64(splats) {
			return fmt.Errorf("list[%d] is %d; want a splat, 0 to %d, or -1 after the last tile's", k, i, splats-1)
		}
	}
	for t := 0; t+1 < len(ranges); t += 2 {
		lo, hi := ranges[t], ranges[t+1]
		if lo < 0 || lo > hi || int64(hi) > int64(len(list)) {
			return fmt.Errorf("ranges of tile %d are %d to %d; want a part of the list, which has %d entries", t/2, lo,
				hi, len(list))
		}
		for k := lo; k < hi; k++ {
			if list[k] < 0 {
				return fmt.Errorf("list[%d] is %d, in the range of tile %d; want a splat, 0 to %d", k, list[k], t/2,
					splats-1)
			}
		}
	}
	return nil
}
