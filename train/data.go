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

// data divides a text into sequences and puts them in order. The order follows from the seed and the number of a
// sequence alone, so that a training can go on from any step.
type data struct {
	ids       []int
	tokens    int // of a sequence that are predicted
	batches   int // sequences of a step
	sequences int // of the text
	seed      uint64
	epoch     int // of order; -1 for none
	order     []int
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
	return &data{ids: ids, tokens: t.Tokens, batches: t.Batch, sequences: n, seed: seed, epoch: -1}, nil
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
		n := step*d.batches + k
		out = append(out, d.sequence(d.shuffled(n / d.sequences)[n%d.sequences])...)
	}
	return out
}

// shuffled returns the order of the sequences in a pass, by Fisher and Yates.
func (d *data) shuffled(epoch int) []int {
	if d.epoch == epoch {
		return d.order
	}
	r := rand.NewPCG(d.seed, uint64(epoch))
	d.epoch, d.order = epoch, make([]int, d.sequences)
	for i := range d.order {
		d.order[i] = i
	}
	for i := len(d.order) - 1; i > 0; i-- {
		k := int(r.Uint64() % uint64(i+1))
		d.order[i], d.order[k] = d.order[k], d.order[i]
	}
	return d.order
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
