package compile

import (
	"context"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/models/weights"
)

// digests hashes the source files while the model is compiled and the weights are written.
type digests struct {
	ckpt  *weights.Checkpoint
	files []format.Source // names and sizes, without digests
	done  chan struct{}
	err   error
}

func startDigests(ctx context.Context, c *weights.Checkpoint) *digests {
	d := &digests{ckpt: c, done: make(chan struct{})}
	for _, f := range c.Files() {
		d.files = append(d.files, format.Source{Name: f.Name, Size: f.Size})
	}
	go func() {
		defer close(d.done)
		_, d.err = c.SHA256(ctx)
	}()
	return d
}

// wait returns the files with their digests. Call it after everything has been read from them. It fails if a file was
// written to meanwhile.
func (d *digests) wait(ctx context.Context) ([]format.Source, error) {
	<-d.done
	if d.err != nil {
		return nil, d.err
	}
	if err := d.ckpt.Unchanged(ctx); err != nil {
		return nil, err
	}
	sums, err := d.ckpt.SHA256(ctx)
	list := append([]format.Source(nil), d.files...)
	for i := range sums {
		list[i].SHA256 = sums[i]
	}
	return list, err
}
