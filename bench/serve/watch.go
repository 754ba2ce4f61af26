package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A watch ends a load after a time, and prints the memory of the server meanwhile.
type watch struct {
	pid         int
	until       time.Duration // 0 means that rounds are counted
	kill        time.Duration // how often the backends are killed; 0 means never
	start, last time.Time
}

func (w *watch) begin() { w.start = time.Now() }

// more reports whether there is time for another round.
func (w *watch) more() (bool, error) {
	if w.until == 0 {
		return true, nil
	}
	took := time.Since(w.start)
	if w.pid != 0 && (w.last.IsZero() || time.Since(w.last) >= time.Minute || took >= w.until) {
		w.last = time.Now()
		own, others, err := memory(w.pid)
		if err != nil {
			return false, err
		}
		fmt.Printf("%8s  server %.1f MiB, backends %.1f MiB\n", took.Round(time.Second), own, others)
	}
	return took < w.until, nil
}

// kills kills the backends now and then, and counts them, until the result is called.
func (w *watch) kills(n *atomic.Int64) (end func()) {
	if w.kill == 0 || w.pid == 0 {
		return func() {}
	}
	tick, done := time.NewTicker(w.kill), make(chan bool)
	go func() {
		for {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			pids, _ := children(w.pid)
			for _, pid := range pids {
				if p, err := os.FindProcess(pid); err == nil && p.Kill() == nil {
					n.Add(1)
				}
			}
		}
	}()
	return func() { tick.Stop(); close(done) }
}

// memory returns the resident memory of a process, and that of its children, in MiB.
func memory(pid int) (own, others float64, err error) {
	resident := func(pid int) (float64, error) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(b))
		if len(fields) < 2 {
			return 0, fmt.Errorf("/proc/%d/statm has %q", pid, b)
		}
		pages, err := strconv.Atoi(fields[1])
		return float64(pages) * float64(os.Getpagesize()) / (1 << 20), err
	}
	if own, err = resident(pid); err != nil {
		return 0, 0, err
	}
	pids, err := children(pid)
	for _, child := range pids {
		n, _ := resident(child) // it may have ended
		others += n
	}
	return own, others, err
}

// children returns the processes that a process has started.
func children(pid int) (pids []int, err error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		b, _ := os.ReadFile(list) // a thread may have ended
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids, err
}
