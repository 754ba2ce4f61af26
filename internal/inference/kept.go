package inference

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/rlx-go/rlx"
)

// kept has the outputs of image encoders, by the digest of their inputs, so that an image is encoded once for all
// requests. Those that were used last stay, as long as all together have at most limit bytes.
type kept struct {
	limit int64

	mu      sync.Mutex
	size    int64
	recent  list.List                     // of *encoding, the one used last in front
	of      map[encodingKey]*list.Element // of recent
	running map[encodingKey]chan struct{} // closed when the run has ended
	reused  int64
	runs    int64
}

type encodingKey struct {
	artifact *loaded
	method   string
	inputs   [sha256.Size]byte
}

type encoding struct {
	key     encodingKey
	outputs map[string]rlx.Tensor
	size    int64
}

func newKept(limit int64) *kept {
	return &kept{limit: limit, of: map[encodingKey]*list.Element{}, running: map[encodingKey]chan struct{}{}}
}

// digest returns the digest of some of the inputs of a run.
func digest(in map[string]rlx.Tensor, names []string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, name := range names {
		t := in[name]
		fmt.Fprintf(h, "%q %v %v %d\n", name, t.DType, t.Shape, len(t.Data))
		h.Write(t.Data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// run returns all outputs of a method, from an earlier run if there is one with the same inputs. Requests that come
// during such a run wait for it.
func (k *kept) run(ctx context.Context, m *model, in map[string]rlx.Tensor) (map[string]rlx.Tensor, error) {
	key := encodingKey{m.of, m.method.Name, digest(in, slices.Sorted(maps.Keys(in)))}
	for {
		out, wait := k.find(key)
		if out != nil {
			return out, nil
		}
		if wait == nil {
			break
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	r, err := m.runner.Run(ctx, rlx.Request{Method: m.method.Name, Inputs: in})
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.running[key])
	delete(k.running, key)
	if err != nil {
		return nil, err
	}
	k.runs++
	k.add(&encoding{key: key, outputs: r.Outputs})
	return r.Outputs, nil
}

// find returns kept outputs. If there are none, wait is closed when a run with the same inputs has ended; without one,
// it is nil and the caller has to make the run.
func (k *kept) find(key encodingKey) (out map[string]rlx.Tensor, wait chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.of[key]; e != nil {
		k.recent.MoveToFront(e)
		k.reused++
		return e.Value.(*encoding).outputs, nil
	}
	if wait = k.running[key]; wait == nil {
		k.running[key] = make(chan struct{})
	}
	return nil, wait
}

// add keeps outputs, unless they have more than the limit or there is no memory for them, or their artifact was
// replaced. The caller holds k.mu.
func (k *kept) add(x *encoding) {
	for _, t := range x.outputs {
		x.size += int64(len(t.Data))
	}
	if x.size > k.limit || x.key.artifact.gone {
		return
	}
	for k.size+x.size > k.limit {
		k.drop(k.recent.Back())
	}
	if reserve := x.key.artifact.reserve; reserve != nil && reserve(x.size) != nil {
		return
	}
	k.size += x.size
	k.of[x.key] = k.recent.PushFront(x)
}

// drop forgets an encoding. The caller holds k.mu.
func (k *kept) drop(e *list.Element) {
	x := k.recent.Remove(e).(*encoding)
	delete(k.of, x.key)
	k.size -= x.size
	if release := x.key.artifact.release; release != nil {
		release(x.size)
	}
}

// forget drops what an artifact has made that was replaced.
func (k *kept) forget(artifact *loaded) {
	k.mu.Lock()
	defer k.mu.Unlock()
	artifact.gone = true
	for e := k.recent.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*encoding).key.artifact == artifact {
			k.drop(e)
		}
		e = next
	}
}
