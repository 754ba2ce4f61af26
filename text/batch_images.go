package text

import (
	"context"
	"errors"
	"slices"

	"github.com/rlx-go/rlx"
)

// trim drops the tokens of a sequence but the first n, and images that are not whole then.
func (s *batchSlot) trim(n int) {
	s.seen, s.pure = s.seen[:n], min(s.pure, n)
	s.shown = slices.DeleteFunc(s.shown, func(x shown) bool { return x.at+x.rows*x.columns > n })
}

// sharedImages shortens the beginning of k tokens that a sequence and a prompt have in common, so that both have the
// same images in it, and each image as a whole.
func (s *batchSlot) sharedImages(k int, images []place) int {
	for _, p := range images {
		if p.at < k && (p.at+p.image.Tokens() > k || !slices.Contains(s.shown, p.image.shownAt(p.at))) {
			return p.at
		}
	}
	for _, x := range s.shown {
		if x.at < k && !slices.ContainsFunc(images, func(p place) bool { return p.at == x.at }) {
			return x.at
		}
	}
	return k
}

// image returns the next image of a prompt after at of its tokens have been computed.
func (x *BatchText) image(at int) (p place, ok bool) {
	i := slices.IndexFunc(x.images, func(p place) bool { return p.at >= at })
	if i < 0 {
		return p, false
	}
	return x.images[i], true
}

// nextImage returns the image that comes next in the prompt of a text, if one does.
func (b *Batch) nextImage(x *BatchText) (image *Image, ok bool) {
	seen := len(b.slots[x.slot].seen)
	p, ok := x.image(seen)
	return p.image, ok && p.at == seen
}

// lookAll appends the images that come next in the prompt of a text.
func (b *Batch) lookAll(ctx context.Context, x *BatchText) error {
	for !x.done {
		image, ok := b.nextImage(x)
		if !ok {
			break
		}
		b.spent += image.Tokens()
		if err := b.look(ctx, x, image); err != nil {
			return err
		}
	}
	return nil
}

// look appends an image to the sequence of a text. If the image cannot be encoded, this ends the text alone.
func (b *Batch) look(ctx context.Context, x *BatchText, image *Image) error {
	s, n := &b.slots[x.slot], image.Tokens()
	err := appendImage(ctx, b.session, b.spec, b.do(), b.state, image, len(s.seen), s.shown, int32(x.slot))
	if errors.Is(err, rlx.ErrNaN) || errors.Is(err, ErrPrompt) {
		return b.fail(x, err)
	}
	if err != nil {
		return err
	}
	s.shown = append(s.shown, image.shownAt(len(s.seen)))
	if s.pure == len(s.seen) {
		s.pure += n
	}
	s.seen, x.rest = append(s.seen, x.rest[:n]...), x.rest[n:]
	return nil
}
