package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/planpage"
)

// planPrefix begins a value of -o that asks for the page with the plan.
const planPrefix = "plan="

// takePlan takes the page with the plan out of the values of -o, unless the job has an output of that name.
func (s *session) takePlan(given []string, offers []offer) (rest []string, err error) {
	if slices.ContainsFunc(offers, func(o offer) bool { return o.name+"=" == planPrefix }) {
		return given, nil
	}
	for _, arg := range given {
		path, ok := strings.CutPrefix(arg, planPrefix)
		switch {
		case !ok:
			rest = append(rest, arg)
			continue
		case s.planPath != "":
			return nil, cli.Usagef("-o "+arg, "the plan is one file, %s", s.planPath)
		case !s.debug.profile:
			return nil, cli.Usagef("-o "+arg, "needs --profile, which measures the steps").
				WithHint("rlxc plan FILE --view html shows the plan without times")
		case strings.ToLower(filepath.Ext(path)) != ".html":
			return nil, cli.Usagef("-o "+arg, "the plan is a page; name a file that ends in .html")
		}
		s.planPath, s.outputs = path, append(s.outputs, path)
	}
	return rest, nil
}

// writePlan writes the page with the plans of the methods that ran, and the mean times of their steps.
func (s *session) writePlan(w io.Writer) error {
	var programs []*planpage.Program
	var methods []string
	for _, r := range s.runs {
		if slices.Contains(methods, r.method) {
			continue
		}
		methods = append(methods, r.method)
		list, err := s.programsOf(r.method)
		if err != nil {
			return err
		}
		programs = append(programs, list...)
	}
	return planpage.Write(w, filepath.Base(s.model.Path()), programs)
}

// programsOf returns the programs of a method, with the mean times of its runs.
func (s *session) programsOf(method string) (out []*planpage.Program, err error) {
	plan, err := s.plan(method)
	if err != nil {
		return nil, err
	}
	runs, flops, bytes := 0, make([]int64, len(plan.Steps)), make([]int64, len(plan.Steps))
	took := make([]time.Duration, len(plan.Steps))
	for _, r := range s.runs {
		if r.method != method {
			continue
		}
		runs++
		for _, x := range r.Steps {
			took[x.Step] += x.Time
			flops[x.Step], bytes[x.Step] = max(flops[x.Step], x.FLOPs), max(bytes[x.Step], x.Bytes)
		}
	}
	kernels := s.loaded(method).Kernels
	first := 0
	for k, segment := range plan.Split.Segments {
		label := method + " for " + plan.Split.Target
		if plan.Split.InPieces() {
			label += fmt.Sprintf(", segment %d of %d on %s", k+1, len(plan.Split.Segments), segment.Target)
		}
		p := planpage.Of(segment.Program, label, method, func(op string) bool {
			for _, x := range kernels {
				if x.Op == op {
					return !x.Native
				}
			}
			return false
		})
		p.Runs, p.Device = runs, deviceName(s.backend.Name, s.host.Device())
		for i := range p.Steps {
			x := &p.Steps[i]
			if t := took[first+i]; t > 0 {
				x.Seconds = t.Seconds() / float64(runs)
				x.FLOPs, x.Bytes = flops[first+i], bytes[first+i]
			}
		}
		first += len(p.Steps)
		out = append(out, p)
	}
	return out, nil
}
