package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/train"
)

// trainSplats fits scenes of Gaussian splats to images.
type trainSplats struct {
	views, rates, background, densify string
	options                           train.SplatOptions
}

func (k *trainSplats) declare(fs *cli.FlagSet) {
	fs.Group("A scene of Gaussian splats (rlxc --train splats=N)")
	fs.StringVar(&k.views, "views", "",
		"`DIR` the images, with COLMAP's cameras.txt, images.txt and points3D.txt, or transforms.json")
	fs.StringVar(&k.rates, "rates", "", "`KIND=RATE,...` learning rates of kinds of values (default "+
		ratesText(train.SplatRates())+"); that of position is in units of the scene's radius")
	fs.StringVar(&k.densify, "densify", "", "`KEY=VALUE,...|off` how a scene with room grows (rlxc --train splats=N,begin=M): every=100 steps, from=100, until= half of the steps, a gradient of 2e-4 and more doubles a splat, a size above 0.03 splits it; opacity=0.005 and less, and more than huge=1, remove it; sizes are in units of the scene's radius")
	fs.StringVar(&k.background, "background", "0,0,0", "`R,G,B` colour behind the scene, 0 to 1")
}

// ratesText writes rates as the flag takes them.
func ratesText(rates map[string]float64) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		out = append(out, fmt.Sprintf("%s=%v", name, rates[name]))
	}
	return strings.Join(out, ",")
}

func (k *trainSplats) names() []string {
	return []string{"views", "rates", "background", "densify", holdOut}
}

func (k *trainSplats) settle() error {
	if k.views == "" {
		return cli.Usagef("--views", "is empty").WithHint("name a folder of images with cameras")
	}
	k.options.Rates = map[string]float64{}
	for item := range strings.SplitSeq(k.rates, ",") {
		if k.rates == "" {
			break
		}
		name, value, _ := strings.Cut(item, "=")
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(x) {
			return cli.Usagef("--rates "+k.rates, "%q; want a kind of value and a number, such as position=1e-3", item)
		}
		k.options.Rates[name] = x
	}
	parts := strings.Split(k.background, ",")
	if len(parts) != 3 {
		return cli.Usagef("--background "+k.background, "has %d numbers; want red, green and blue", len(parts))
	}
	for i, p := range parts {
		x, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil {
			return cli.Usagef("--background "+k.background, "%q is no number", p)
		}
		k.options.Background[i] = x
	}
	return nil
}

// growth parses --densify.
func (k *trainSplats) growth(steps int) error {
	switch k.densify {
	case "":
		return nil
	case "off":
		k.options.Densify = &train.Densify{}
		return nil
	}
	d := train.DensifyDefaults(steps)
	k.options.Densify = d
	numbers := map[string]*int{"every": &d.Every, "from": &d.From, "until": &d.Until}
	sizes := map[string]*float64{"gradient": &d.Gradient, "size": &d.Size, "opacity": &d.Opacity, "huge": &d.Huge}
	for item := range strings.SplitSeq(k.densify, ",") {
		name, value, _ := strings.Cut(item, "=")
		var err error
		if n := numbers[name]; n != nil {
			*n, err = strconv.Atoi(value)
		} else if x := sizes[name]; x != nil {
			*x, err = strconv.ParseFloat(value, 64)
		} else {
			return cli.Usagef("--densify "+k.densify, "%q is unknown; allowed are off, %s", name,
				strings.Join(append(slices.Sorted(maps.Keys(numbers)), slices.Sorted(maps.Keys(sizes))...), ", "))
		}
		if err != nil {
			return cli.Usagef("--densify "+k.densify, "%q; want a number, such as every=100", item)
		}
	}
	return nil
}

func (k *trainSplats) defaults(steps int) train.Settings { return train.SplatDefaults(steps) }

func (k *trainSplats) begin(ctx context.Context, s *session, f *trainFlags) (*training, error) {
	about := s.model.Task().(*task.TrainSplats)
	if err := s.ready(ctx, nil, nil); err != nil {
		return nil, err
	}
	k.options.Settings, k.options.HoldOut = f.settings, f.holdOut
	if err := k.growth(f.settings.Steps); err != nil {
		return nil, err
	}
	t, err := train.NewSplats(ctx, s.host, k.views, k.options)
	if err != nil {
		return nil, err
	}
	n, held := t.Views()
	s.env.Notef("%d images to train on, %d held out", n, held)
	return &training{learner: t, about: about, save: t.SavePLY,
		examples: func(steps int) (float64, string) { return float64(steps), "images" },
		evaluate: func(ctx context.Context) (evalJSON, error) {
			loss, psnr, err := t.Evaluate(ctx)
			e := evalJSON{Loss: loss, PSNR: psnr}
			if err == nil && about.Begin > 0 {
				e.Splats, _, err = t.Count(ctx)
			}
			return e, err
		}}, nil
}
