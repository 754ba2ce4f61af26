package main

import (
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/text"
)

// samplingFlags tell how tokens are drawn.
type samplingFlags struct {
	fs       *cli.FlagSet
	sampling text.Sampling
	seed     uint64
	stop     cli.List
}

func (f *samplingFlags) declare(fs *cli.FlagSet) {
	f.fs = fs
	fs.Float64Var(&f.sampling.Temperature, "temperature", 0,
		"`T` sampling temperature; 0 takes the most probable token (default the model's)")
	fs.IntVar(&f.sampling.TopK, "top-k", 0,
		"`K` sample among the K most probable tokens only; 0 is off (default the model's)")
	fs.Float64Var(&f.sampling.TopP, "top-p", 0,
		"`P` sample among the most probable tokens whose probabilities add up to P; 0 and 1 are off (default the model's)")
	fs.Float64Var(&f.sampling.MinP, "min-p", 0,
		"`P` sample among tokens with at least P times the largest probability; 0 is off (default the model's)")
	fs.Float64Var(&f.sampling.RepeatPenalty, "repeat-penalty", 0,
		"`R` make tokens that already occurred less likely; 0 and 1 are off (default the model's)")
	fs.Uint64Var(&f.seed, "seed", 0, "`N` seed of the sampling; the same seed gives the same text on every backend")
	fs.ListVarP(&f.stop, "stop", "", "`TEXT` stop before this text (repeatable)")
}

// samplingOf returns the parameters of the flags, and the model's parameters where a flag is not set.
func (f *samplingFlags) samplingOf(facts text.Facts) (text.Sampling, error) {
	sampling := facts.Sampling
	for name, copy := range map[string]func(){
		"temperature": func() { sampling.Temperature = f.sampling.Temperature },
		"top-k":       func() { sampling.TopK = f.sampling.TopK },
		"top-p":       func() { sampling.TopP = f.sampling.TopP }, "min-p": func() { sampling.MinP = f.sampling.MinP },
		"repeat-penalty": func() { sampling.RepeatPenalty = f.sampling.RepeatPenalty },
	} {
		if f.fs.Changed(name) {
			copy()
		}
	}
	return sampling, asFlag(sampling.Check(facts))
}
