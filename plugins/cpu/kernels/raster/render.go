package raster

import (
	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Render renders a scene as gaussian_splat_render does.
func Render(p *pool.Pool, rgba []float32, s *Scene, meta []float32, width, height int) error {
	v, err := check(s, meta, width, height)
	if err != nil {
		return err
	}
	p.Shared.Reset()
	r := project(p, v, s)
	tiles := make([]tile, p.Threads())
	r.eachGroup(func(g *group) {
		across := segments(width)
		p.Run((g.end-g.first)*across, func(task, worker int) {
			t := &tiles[worker]
			r.eachTile(p.Scratch(worker), g, g.first+task/across, task%across, func(x0, y0 int, places []int32) {
				t.begin(v, x0, y0, min(x0+side, width), min(y0+side, height))
				for _, k := range places {
					i := g.entries[k].splat
					t.add(&r.forms[i], &r.colors[i], r.extents[i])
					if t.taking == 0 {
						break
					}
				}
				t.finish(v, rgba)
			})
		})
	})
	return nil
}

// RenderScratch returns the memory of Render for n splats.
func RenderScratch(n, height int) pool.Size {
	return pool.Size{Shared: projectBytes(n) + groupBytes(n, height), Worker: tileBytes(n)}
}

func check(s *Scene, meta []float32, width, height int) (*splat.View, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	v, err := splat.NewView(meta, width, height)
	return &v, err
}

// Rasterize makes an image of prepared splats as gaussian_splat_rasterize does.
func Rasterize(p *pool.Pool, rgba, colors, forms []float32, list, ranges []int32, meta []float32, g splat.Grid) error {
	v, err := splat.NewView(meta, g.Width, g.Height)
	if err == nil {
		err = splat.CheckLists(list, ranges, len(colors)/4)
	}
	if err != nil {
		return err
	}
	p.Shared.Reset()
	n := len(colors) / 4
	r := &prepared{forms: pool.ElementsOf[form](pool.BytesOf(forms)),
		colors: pool.ElementsOf[[4]float32](pool.BytesOf(colors)), extents: alloc[extent](&p.Shared, n)}
	p.Split(n, keyGrain, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			r.extents[i] = r.forms[i].extent(g.Height)
		}
	})
	tiles := make([]tile, p.Threads())
	columns := g.Columns()
	p.Run(columns*g.Rows(), func(task, worker int) {
		t := &tiles[worker]
		left, top := task%columns*g.Tile, task/columns*g.Tile
		right, bottom := min(left+g.Tile, g.Width), min(top+g.Tile, g.Height)
		for y := top; y < bottom; y += side {
			for x := left; x < right; x += side {
				t.begin(&v, x, y, min(x+side, right), min(y+side, bottom))
				for _, i := range list[ranges[2*task]:ranges[2*task+1]] {
					t.add(&r.forms[i], &r.colors[i], r.extents[i])
					if t.taking == 0 {
						break
					}
				}
				t.finish(&v, rgba)
			}
		}
	})
	return nil
}

// RasterizeScratch returns the memory of Rasterize for n splats.
func RasterizeScratch(n int) pool.Size { return pool.Size{Shared: allocated[extent](n)} }

// Prepare projects splats as gaussian_splat_prepare does. The lists are those of the definition, since both are made by
// core/splat in float64.
func Prepare(p *pool.Pool, colors, forms []float32, list, ranges []int32, s *Scene, meta []float32,
	g splat.Grid) error {
	v, err := check(s, meta, g.Width, g.Height)
	if err != nil {
		return err
	}
	p.Shared.Reset()
	all := &splat.Prepared{Forms: alloc[splat.Form](&p.Shared, s.N)}
	sorter := newSorter(&p.Shared, s.N)
	p.Split(s.N, keyGrain, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			var c [4]float64
			distance, seen := splat.PrepareOne(v, s, i, &all.Forms[i], &c)
			sorter.key(i, distance, seen)
			for k, x := range all.Forms[i] {
				forms[splat.FormLen*i+k] = float32(x)
			}
			for k, x := range c {
				colors[4*i+k] = float32(x)
			}
		}
	})
	all.Order = sorter.sort()
	return all.Lists(g, list, ranges)
}

// PrepareScratch returns the memory of Prepare for n splats.
func PrepareScratch(n int) pool.Size {
	return pool.Size{Shared: allocated[splat.Form](n) + sorterBytes(n)}
}
