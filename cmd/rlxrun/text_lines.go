package main

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/text"
)

// A tokenLine is a line of --format jsonl.
type tokenLine struct {
	Prompt *int `json:"prompt,omitempty"` // of several, from 1
	tokenSummary
}

// The finalLine is the last line of --format jsonl.
type finalLine struct {
	Done     bool          `json:"done"`
	Texts    []textEnd     `json:"texts"` // in the order of the prompts
	Sampling text.Sampling `json:"sampling"`
	Seed     uint64        `json:"seed"`
}

// A textEnd tells how a text ended.
type textEnd struct {
	Stop       text.Stop   `json:"stop"`
	Unfinished bool        `json:"unfinished,omitempty"`
	Timings    textTimings `json:"timings"` // with the numbers of tokens
}

func endOf(t *text.Result) textEnd { return textEnd{t.Stop, t.Unfinished, timingsOf(t)} }

func summaryOf(t text.Token) tokenSummary {
	p := jsonNumber(&tensor.Array{DType: dtype.F32, Floats: []float64{float64(t.LogProb)}}, 0)
	return tokenSummary{t.ID, t.Text, p, ms(t.Time)}
}

// linesOfJSON marks the jobs that --format jsonl is for.
func (j *textJob) linesOfJSON()      {}
func (j *textBatchJob) linesOfJSON() {}
