package text

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
)

// PerplexityOptions holds the options of Perplexity. The zero value is for texts of any length.
type PerplexityOptions struct {
	// Window is the number of tokens that the model sees at a time. 0 means 512, or the model's maximum if that is
	// less.
	Window int
	// Stride is the distance in tokens from one window to the next, 1 to Window; 0 means Window/2. Only the tokens of a
	// window that no earlier window has predicted count. So a small stride gives each token more context, and takes
	// longer.
	Stride int
	// Progress, if not nil, is called after each window with the number of tokens that were predicted so far.
	Progress func(done, total int)
}

// A PerplexityResult tells how well a model predicts a text.
type PerplexityResult struct {
	Tokens     int     // that were predicted: all but the first
	Loss       float64 // mean negative logarithm of their probabilities, in nats
	Perplexity float64 // exp(Loss)
	Window     int
	Stride     int
}

// methodForward computes the logits of whole sequences: input_ids i64[B,T] -> logits f32[B,T,Vocabulary].
const methodForward, inputForward, outputForward = "forward", "input_ids", "logits"

const defaultWindow = 512

// Perplexity computes the mean negative log likelihood of ids, and its exponential, with a model that declares the task
// "text" and has the method forward. Windows of the text are computed one after another; each token counts once, and
// the first of the text does not. The logarithms are computed and added in float64.
//
// Errors match ErrPrompt (fewer than two tokens, or ids outside the vocabulary), rlx.ErrUsage (a window or stride that
// is not allowed, or a model without the method), rlx.ErrNaN, or are those of rlx.Session.Run.
func Perplexity(ctx context.Context, r rlx.Runner, ids []int, o PerplexityOptions) (*PerplexityResult, error) {
	t, err := specOf(r.Model())
	if err != nil {
		return nil, err
	}
	most, err := forwardTokens(r.Model())
	if err != nil {
		return nil, err
	}
	if len(ids) < 2 {
		return nil,
			diag.New(code.TextPrompt, "text", "has %d tokens; want two or more, because the first is not predicted",
				len(ids))
	}
	for i, id := range ids {
		if id < 0 || id >= t.Vocabulary {
			return nil, diag.New(code.TextPrompt, "text", "id %d is %d; the vocabulary has 0 to %d", i, id,
				t.Vocabulary-1)
		}
	}
	if err := o.settle(most); err != nil {
		return nil, err
	}
	out := &PerplexityResult{Tokens: len(ids) - 1, Window: o.Window, Stride: o.Stride}
	sum, done := 0.0, 1 // ids[:done] are predicted
	for start := 0; done < len(ids); start += o.Stride {
		// The last token of a window is only predicted, so the model sees those before it.
		end := min(start+o.Window, len(ids)-1)
		x, err := windowLoss(ctx, r, t, ids[start:end+1], done-start)
		if err != nil {
			return nil, err
		}
		sum, done = sum+x, end+1
		if o.Progress != nil {
			o.Progress(done-1, out.Tokens)
		}
	}
	out.Loss = sum / float64(out.Tokens)
	out.Perplexity = math.Exp(out.Loss)
	return out, nil
}

// settle sets the defaults, and checks the options for a method that takes up to most tokens.
func (o *PerplexityOptions) settle(most int) error {
	if o.Window == 0 {
		o.Window = min(defaultWindow, most)
	}
	if o.Window < 1 || o.Window > most {
		return diag.New(diag.Usage, "window", "is %d; allowed are 1 to %d, which the model takes at a time", o.Window,
			most)
	}
	if o.Stride == 0 {
		o.Stride = max(1, o.Window/2)
	}
	if o.Stride < 1 || o.Stride > o.Window {
		return diag.New(diag.Usage, "stride", "is %d; allowed are 1 to %d, the size of a window", o.Stride, o.Window)
	}
	return nil
}

// forwardTokens returns the maximum number of tokens that method forward takes.
func forwardTokens(m *rlx.Model) (int, error) {
	f, err := m.Method(methodForward)
	if err == nil {
		for _, v := range f.Inputs {
			if v.Name == inputForward && len(v.Shape) == 2 && len(f.Inputs) == 1 {
				return int(v.Shape[1].Max), nil
			}
		}
	}
	return 0, diag.New(diag.Usage, m.Path(), "has no method %s that takes %s i64[B,T] alone", methodForward,
		inputForward).WithHint("compile the language model with rlxc again")
}

// windowLoss returns the sum of the negative log likelihoods of ids[first:], where each is predicted from those before
// it.
func windowLoss(ctx context.Context, r rlx.Runner, t *spec, ids []int, first int) (float64, error) {
	seen := make([]int64, len(ids)-1)
	for i := range seen {
		seen[i] = int64(ids[i])
	}
	res, err := r.Run(ctx, rlx.Request{Method: methodForward, Inputs: map[string]rlx.Tensor{
		inputForward: {DType: rlx.I64, Shape: []int{1, len(seen)}, Data: tensor.Bytes(seen)}},
		Outputs: []string{outputForward}})
	if err != nil {
		return 0, err
	}
	logits := res.Outputs[outputForward]
	if len(logits.Data) != 4*len(seen)*t.Vocabulary {
		return 0, diag.New(diag.Usage, r.Model().Path(), "%s of %s is %v; want f32[1,%d,%d]", outputForward,
			methodForward, logits, len(seen), t.Vocabulary)
	}
	losses := rowLosses(tensor.View[float32](logits.Data), t.Vocabulary, ids, first)
	sum := 0.0
	for i, x := range losses {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return 0,
				diag.New(device.ErrNaN, methodForward, "the logits after token %d of a window hold a NaN or infinity",
					first+i-1)
		}
		sum += x
	}
	return sum, nil
}

// rowLosses returns logsumexp(row) - row[id] for each of ids[first:]. The row is that of the token before id.
func rowLosses(logits []float32, vocabulary int, ids []int, first int) []float64 {
	out := make([]float64, len(ids)-first)
	parts := runtime.GOMAXPROCS(0)
	var wait sync.WaitGroup
	for p := range parts {
		wait.Go(func() {
			for i := p; i < len(out); i += parts {
				row := logits[(first+i-1)*vocabulary:][:vocabulary]
				most := row[0]
				for _, x := range row {
					most = max(most, x)
				}
				sum := 0.0
				for _, x := range row {
					sum += math.Exp(float64(x) - float64(most))
				}
				out[i] = math.Log(sum) + float64(most) - float64(row[ids[first+i]])
			}
		})
	}
	wait.Wait()
	return out
}

// String returns "loss 3.2145, perplexity 24.89".
func (x *PerplexityResult) String() string {
	return fmt.Sprintf("loss %.4f, perplexity %.4g", x.Loss, x.Perplexity)
}
