package main

import (
	"github.com/rlx-go/rlx/text"
)

// textSummary is the JSON summary of a generated text.
type textSummary struct {
	*summary
	textResult
	Seed     uint64        `json:"seed"`
	Sampling text.Sampling `json:"sampling"`
}

// textResult is a prompt and the text generated for it.
type textResult struct {
	PromptIDs []int     `json:"prompt_ids"`
	IDs       []int     `json:"ids"` // generated tokens
	Text      string    `json:"text"`
	Stop      text.Stop `json:"stop"`
	// the text ended within its grammar
	Unfinished bool           `json:"unfinished,omitempty"`
	Tokens     []tokenSummary `json:"tokens"`
	Timings    textTimings    `json:"timings"`
}

type tokenSummary struct {
	ID      int     `json:"id"`
	Text    string  `json:"text"`
	LogProb any     `json:"logprob"` // a number, or "-Inf"
	MS      float64 `json:"ms"`      // from the start of the generation
}

// textTimings has the times of generating a text.
type textTimings struct {
	PromptTokens    int     `json:"prompt_tokens"` // prompt tokens that were computed
	PromptMS        float64 `json:"prompt_ms"`     // until the first token was chosen
	PromptPerSecond float64 `json:"prompt_tokens_per_s"`
	Tokens          int     `json:"tokens"`
	DecodeMS        float64 `json:"decode_ms"` // from the first to the last token
	DecodePerSecond float64 `json:"decode_tokens_per_s,omitempty"`
	draftTimings
}

func timingsOf(t *text.Result) textTimings {
	out := textTimings{PromptTokens: t.Prompt, PromptMS: ms(t.Prefill), Tokens: len(t.Tokens)}
	if t.Prefill > 0 {
		out.PromptPerSecond = float64(t.Prompt) / t.Prefill.Seconds()
	}
	if n := len(t.Tokens); n > 1 {
		d := t.Tokens[n-1].Time - t.Tokens[0].Time
		out.DecodeMS = ms(d)
		if d > 0 {
			out.DecodePerSecond = float64(n-1) / d.Seconds()
		}
	}
	out.add(t.Drafted, t.Accepted)
	return out
}

func resultOf(prompt []int, t *text.Result) textResult {
	out := textResult{PromptIDs: prompt, IDs: t.IDs(), Text: t.Text, Stop: t.Stop, Unfinished: t.Unfinished,
		Tokens: []tokenSummary{}, Timings: timingsOf(t)}
	for _, t := range t.Tokens {
		out.Tokens = append(out.Tokens, summaryOf(t))
	}
	return out
}
