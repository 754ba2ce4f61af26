package inference

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/task"
)

// prompts runs the methods of a model that find masks for prompts. Requests that wait while a run is in progress share
// the next one, if their prompts are for the same image and have the same number of points.
type prompts struct {
	runner rlx.Runner
	task   *task.Segment
	count  func(prompts int) // is told of every run

	mu      sync.Mutex
	running bool
	waiting []*prompt
}

// A prompt is a request: one or more prompts for an image.
type prompt struct {
	ctx    context.Context
	method string
	in     map[string]rlx.Tensor
	image  [sha256.Size]byte // digest of the inputs that all prompts of a run share
	points int               // of each prompt; 0 if the request gets a run of its own
	rows   int

	done chan struct{} // closed when out and err are set
	out  map[string]rlx.Tensor
	err  error
}

// newPrompts returns nil for a model without a method for several prompts.
func newPrompts(r rlx.Runner, count func(prompts int)) *prompts {
	t := task.Clicks(r.Model().Task())
	if t == nil || t.BatchMethod == "" {
		return nil
	}
	one, err := r.Model().Method(t.PromptMethod)
	several, failed := r.Model().Method(t.BatchMethod)
	if err != nil || failed != nil || !slices.EqualFunc(one.Outputs, several.Outputs, sameRow) {
		return nil
	}
	return &prompts{runner: r, task: t, count: count}
}

// sameRow reports whether an output for one prompt is one of those for several.
func sameRow(one, several rlx.Value) bool {
	return one.Name == several.Name && one.DType == several.DType && len(one.Shape) > 0 && one.Shape[0].Max == 1 &&
		len(several.Shape) > 0 && slices.Equal(one.Shape[1:], several.Shape[1:])
}

// has reports whether a method is one of those.
func (p *prompts) has(method string) bool {
	return p != nil && (method == p.task.PromptMethod || method == p.task.BatchMethod)
}

// run returns all outputs of a method.
func (p *prompts) run(ctx context.Context, method string, in map[string]rlx.Tensor) (map[string]rlx.Tensor, error) {
	x := p.prompt(ctx, method, in)
	p.mu.Lock()
	p.waiting = append(p.waiting, x)
	if !p.running {
		p.running = true
		go p.loop()
	}
	p.mu.Unlock()
	select {
	case <-x.done:
		return x.out, x.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// prompt returns a request. One whose inputs are not as they should be gets a run of its own, which says what is wrong,
// and so does one with a mask.
func (p *prompts) prompt(ctx context.Context, method string, in map[string]rlx.Tensor) *prompt {
	x := &prompt{ctx: ctx, method: method, in: in, done: make(chan struct{})}
	points, labels := in[p.task.PointsInput], in[p.task.LabelsInput]
	_, mask := in[p.task.MaskInput]
	if len(points.Shape) != 3 || points.Shape[2] != 2 || !slices.Equal(points.Shape[:2], labels.Shape) || mask ||
		method == p.task.PromptMethod && points.Shape[0] != 1 {
		return x
	}
	x.rows, x.points = points.Shape[0], points.Shape[1]
	var shared []string
	for name := range in {
		if name != p.task.PointsInput && name != p.task.LabelsInput {
			shared = append(shared, name)
		}
	}
	slices.Sort(shared)
	x.image = digest(in, shared)
	return x
}

// loop makes runs while requests wait.
func (p *prompts) loop() {
	for {
		group := p.next()
		if group == nil {
			return
		}
		if len(group) == 1 || !p.together(group) {
			for _, x := range group {
				p.alone(x)
			}
		}
		for _, x := range group {
			close(x.done)
		}
	}
}

// next returns the requests of the next run, or nil if none waits.
func (p *prompts) next() (group []*prompt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rest []*prompt
	rows := 0
	for _, x := range p.waiting {
		switch {
		case x.ctx.Err() != nil: // the client has gone
		case group == nil:
			group, rows = []*prompt{x}, x.rows
		case x.points > 0 && x.points == group[0].points && x.image == group[0].image &&
			rows+x.rows <= p.task.MaxPrompts:
			group, rows = append(group, x), rows+x.rows
		default:
			rest = append(rest, x)
		}
	}
	p.waiting, p.running = rest, group != nil
	return group
}

// alone makes the run of a request.
func (p *prompts) alone(x *prompt) {
	r, err := p.runner.Run(x.ctx, rlx.Request{Method: x.method, Inputs: x.in})
	x.err = err
	if err == nil {
		x.out = r.Outputs
		p.count(max(1, x.rows))
	}
}

// together makes one run for several requests. It returns false if they need runs of their own, for example because one
// of them has an input that the model refuses.
func (p *prompts) together(group []*prompt) bool {
	in := maps.Clone(group[0].in)
	rows := 0
	for _, name := range []string{p.task.PointsInput, p.task.LabelsInput} {
		all := rlx.Tensor{DType: in[name].DType}
		rows = 0
		for _, x := range group {
			all.Data = append(all.Data, x.in[name].Data...)
			rows += x.rows
		}
		all.Shape = append([]int{rows}, in[name].Shape[1:]...)
		in[name] = all
	}
	// the clients may go one by one
	ctx := context.WithoutCancel(group[0].ctx)
	r, err := p.runner.Run(ctx, rlx.Request{Method: p.task.BatchMethod, Inputs: in})
	if err != nil {
		return false
	}
	p.count(rows)
	at := 0
	for _, x := range group {
		x.out = map[string]rlx.Tensor{}
		for name, t := range r.Outputs {
			row := len(t.Data) / rows
			x.out[name] = rlx.Tensor{DType: t.DType, Shape: append([]int{x.rows}, t.Shape[1:]...),
				Data: t.Data[at*row : (at+x.rows)*row]}
		}
		at += x.rows
	}
	return true
}
