package main

import (
	"context"

	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/train"
)

// trainSegment trains mask decoders.
type trainSegment struct {
	images, masks string
}

func (k *trainSegment) declare(fs *cli.FlagSet) {
	fs.Group("The mask decoder of a SAM (rlxc --train decoder)")
	fs.StringVar(&k.images, "images", "", "`DIR` the images; each is encoded once")
	fs.StringVar(&k.masks, "masks", "",
		"`DIR` a PNG of the same name for each image: black is the background, each other colour an object")
}

func (k *trainSegment) names() []string { return []string{"images", "masks", holdOut} }

func (k *trainSegment) settle() error {
	if k.images == "" || k.masks == "" {
		return cli.Usagef("--masks", "is missing").WithHint("for example --images photos --masks masks")
	}
	return nil
}

func (k *trainSegment) defaults(steps int) train.Settings { return train.SegmentDefaults(steps) }

func (k *trainSegment) begin(ctx context.Context, s *session, f *trainFlags) (*training, error) {
	about := s.model.Task().(*task.TrainSegment)
	if err := s.ready(ctx, nil, nil); err != nil {
		return nil, err
	}
	bar := s.env.Progress("images", 0)
	t, err := train.NewSegment(ctx, s.host, k.images, k.masks,
		train.SegmentOptions{Settings: f.settings, HoldOut: f.holdOut}, func(done int) { bar.Set(int64(done)) })
	bar.Clear()
	if err != nil {
		return nil, err
	}
	images, n, held := t.Examples()
	s.env.Notef("%d images with %d objects to train on, %d held out", images, n, held)
	return &training{learner: t, about: about, save: t.SaveWeights,
		examples: func(steps int) (float64, string) { return float64(steps * about.Batch), "images" },
		evaluate: func(ctx context.Context) (evalJSON, error) {
			loss, iou, err := t.Evaluate(ctx)
			return evalJSON{Loss: loss, IoU: iou}, err
		}}, nil
}
