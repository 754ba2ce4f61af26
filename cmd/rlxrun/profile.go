package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rlx-go/rlx/internal/cli"
)

// profileRow is the total time of one kind of op in one method.
type profileRow struct {
	Method string  `json:"method"`
	Op     string  `json:"op"`
	Count  int     `json:"count"`
	MS     float64 `json:"ms"`
	Clock  string  `json:"clock"` // clock that measured MS: "device" or "host"
	Share  float64 `json:"share"` // share of the total step time of the method
	FLOPs  int64   `json:"flops"`
	Bytes  int64   `json:"bytes"` // of operands and results, each counted once
	GFLOPS float64 `json:"gflop_per_s"`
	GBPS   float64 `json:"gb_per_s"`
}

// profileOf adds up the step times of runs of one method by kind of op, slowest first.
func profileOf(runs ...runRecord) []profileRow {
	byOp := map[string]*profileRow{}
	times := map[string]time.Duration{}
	var total time.Duration
	for _, r := range runs {
		for _, s := range r.Steps {
			row := byOp[s.Op]
			if row == nil {
				row = &profileRow{Method: r.method, Op: s.Op, Clock: r.Clock}
				byOp[s.Op] = row
			}
			row.Count++
			row.FLOPs += s.FLOPs
			row.Bytes += s.Bytes
			times[s.Op] += s.Time
			total += s.Time
		}
	}
	var rows []profileRow
	for name, row := range byOp {
		t := times[name]
		row.MS = t.Seconds() * 1e3
		if t > 0 {
			row.Share = float64(t) / float64(total)
			row.GFLOPS = float64(row.FLOPs) / t.Seconds() / 1e9
			row.GBPS = float64(row.Bytes) / t.Seconds() / 1e9
		}
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b profileRow) int { return cmp.Or(cmp.Compare(b.MS, a.MS), cmp.Compare(a.Op, b.Op)) })
	return rows
}

// profileTable formats the rows as a table.
func profileTable(rows []profileRow) [][]string {
	out := [][]string{{"METHOD", "OP", "COUNT", "MS", "CLOCK", "SHARE", "GFLOP/s", "GB/s"}}
	for _, r := range rows {
		out = append(
			out, []string{r.Method, r.Op, fmt.Sprint(r.Count), cli.Digits(r.MS), r.Clock,
				fmt.Sprintf("%.1f %%", 100*r.Share),
				cli.Digits(r.GFLOPS), cli.Digits(r.GBPS)})
	}
	return out
}
