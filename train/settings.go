package train

import (
	"math"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/task"
)

// A Schedule says how the learning rate changes.
type Schedule string

const (
	Constant Schedule = "constant"
	Linear   Schedule = "linear" // falls linearly to 0
	Cosine   Schedule = "cosine" // falls to 0 like half a period of a cosine
)

// Schedules lists the schedules.
func Schedules() []string { return []string{string(Constant), string(Linear), string(Cosine)} }

// Settings are the numbers of a training run. A checkpoint belongs to the settings that it was made with.
type Settings struct {
	Steps        int      `json:"steps"` // for the schedule; Trainer.Step can go on
	LearningRate float64  `json:"learning_rate"`
	Schedule     Schedule `json:"schedule"` // after the warm-up
	Warmup       int      `json:"warmup"`   // number of steps in which the rate grows linearly from 0
	WeightDecay  float64  `json:"weight_decay"`
	Clip         float64  `json:"clip"` // largest norm of all gradients together; 0 means no limit
	Momentum     float64  `json:"momentum"`
	Beta1        float64  `json:"beta1"`
	Beta2        float64  `json:"beta2"`
	Epsilon      float64  `json:"epsilon"`
	Seed         uint64   `json:"seed"` // for the order of the text, and for random initial values
}

// Defaults returns settings for a number of steps: learning rate 3e-4, falling with a cosine after a tenth of the
// steps, clipping at 1, and for the rest those of PyTorch's AdamW. Momentum, which SGD alone uses, is 0.9.
func Defaults(steps int) Settings {
	return Settings{Steps: steps, LearningRate: 3e-4, Schedule: Cosine, Warmup: steps / 10, WeightDecay: 0.01, Clip: 1,
		Momentum: 0.9, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
}

// check checks the settings. Errors name their flags of rlxrun train.
func (s *Settings) check() error {
	bad := func(flag, format string, args ...any) error { return diag.New(diag.Usage, flag, format, args...) }
	switch {
	case s.Steps < 1:
		return bad("steps", "is %d; allowed are 1 and more", s.Steps)
	case !(s.LearningRate >= 0 && s.LearningRate <= 1e6):
		return bad("lr", "is %v; allowed are 0 to 1e6", s.LearningRate)
	case s.Schedule != Constant && s.Schedule != Linear && s.Schedule != Cosine:
		return bad("schedule", "%q is unknown; allowed are %v", s.Schedule, Schedules())
	case s.Warmup < 0 || s.Warmup > s.Steps:
		return bad("warmup", "is %d; allowed are 0 to %d, the number of steps", s.Warmup, s.Steps)
	case !(s.Clip >= 0):
		return bad("clip", "is %v; allowed are 0 (off) and more", s.Clip)
	case !(s.Epsilon > 0 && s.Epsilon <= 1):
		return bad("epsilon", "is %v; allowed are more than 0, up to 1", s.Epsilon)
	case !(s.WeightDecay >= 0 && s.WeightDecay <= 1e6):
		return bad("weight-decay", "is %v; allowed are 0 to 1e6", s.WeightDecay)
	}
	for flag, v := range map[string]float64{"momentum": s.Momentum, "beta1": s.Beta1, "beta2": s.Beta2} {
		if !(v >= 0 && v < 1) {
			return bad(flag, "is %v; allowed are 0 and more, less than 1", v)
		}
	}
	return nil
}

// Rate returns the learning rate of a step, from 0. It is LearningRate*step/Warmup during the warm-up, and follows the
// schedule afterwards.
func (s *Settings) Rate(step int) float64 {
	if step < s.Warmup {
		return s.LearningRate * float64(step) / float64(s.Warmup)
	}
	done := min(1, float64(step-s.Warmup)/float64(max(1, s.Steps-s.Warmup)))
	switch s.Schedule {
	case Linear:
		return s.LearningRate * (1 - done)
	case Cosine:
		return s.LearningRate * (1 + math.Cos(math.Pi*done)) / 2
	}
	return s.LearningRate
}

// scalars returns the inputs of a step for an optimizer.
func (s *Settings) scalars(step int, optimizer string) map[string]float64 {
	rate, t := s.Rate(step), float64(step+1)
	size, clip := rate, s.Clip
	if optimizer == task.AdamW {
		size /= 1 - math.Pow(s.Beta1, t)
	}
	if clip == 0 {
		clip = math.MaxFloat32
	}
	return map[string]float64{
		task.TrainStepSize: size, task.TrainDecay: rate * s.WeightDecay, task.TrainClip: clip,
		task.TrainMomentum: s.Momentum, task.TrainKeep1: s.Beta1, task.TrainTake1: 1 - s.Beta1,
		task.TrainKeep2: s.Beta2, task.TrainTake2: 1 - s.Beta2,
		task.TrainScale2: 1 / (1 - math.Pow(s.Beta2, t)), task.TrainEpsilon: s.Epsilon,
	}
}
