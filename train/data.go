package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/task"
)

// data divides a text into sequences and puts them in order, so that a training can go on from any step.
type data struct {
	ids       []int
	tokens    int // of a sequence that are predicted
	batches   int // sequences of a step
	sequences int // of the text
	order     order
}

func newData(t *task.Train, ids []int, seed uint64) (*data, error) {
	for i, id := range ids {
		if id < 0 || id >= t.Vocabulary {
			return nil, diag.New(code.TrainData, "text", "token %d is %d; the vocabulary has 0 to %d", i, id,
				t.Vocabulary-1)
		}
	}
	if err := CheckText(len(ids), t.Tokens); err != nil {
		return nil, err
	}
	n := (len(ids) - 1) / t.Tokens
	return &data{ids: ids, tokens: t.Tokens, batches: t.Batch, sequences: n,
		order: order{n: n, seed: seed}}, nil
}

// CheckText checks that a text of n tokens has at least one sequence of the given number of predicted tokens. New does
// the same. The error matches ErrText.
func CheckText(n, tokens int) error {
	if n <= tokens {
		return diag.New(code.TrainData, "text", "has %d tokens; a sequence takes %d, and one more", n, tokens).
			WithHint("give a longer text, or compile the model with a smaller rlxc --train-tokens")
	}
	return nil
}

// sequence returns sequence i of the text, which overlaps the next by one token.
func (d *data) sequence(i int) []int { return d.ids[i*d.tokens:][:d.tokens+1] }

// batch returns the sequences of a step. Each pass through the text has an order of its own.
func (d *data) batch(step int) (out []int) {
	for k := range d.batches {
		out = append(out, d.sequence(d.order.at(step*d.batches+k))...)
	}
	return out
}

// order puts n examples in another order in each pass through them. It follows from the seed and the number of the pass
// alone.
type order struct {
	n     int
	seed  uint64
	epoch int // of list, if list is not nil
	list  []int
}

// at returns the example that comes after i others.
func (o *order) at(i int) int { return o.shuffled(i / o.n)[i%o.n] }

// shuffled returns the order in a pass, by Fisher and Yates.
func (o *order) shuffled(epoch int) []int {
	if o.list != nil && o.epoch == epoch {
		return o.list
	}
	r := rand.NewPCG(o.seed, uint64(epoch))
	o.epoch, o.list = epoch, make([]int, o.n)
	for i := range o.list {
		o.list[i] = i
	}
	for i := len(o.list) - 1; i > 0; i-- {
		k := int(r.Uint64() % uint64(i+1))
		o.list[i], o.list[k] = o.list[k], o.list[i]
	}
	return o.list
}

// digest identifies the text.
func (d *data) digest() string {
	h := sha256.New()
	var b [4]byte
	for _, id := range d.ids {
		binary.LittleEndian.PutUint32(b[:], uint32(id))
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}
