package cli

import (
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress is a progress bar on stderr if that is a terminal; otherwise it does nothing. All methods may be called on a
// nil Progress and concurrently.
type Progress struct {
	mu  sync.Mutex
	bar *progressbar.ProgressBar
}

// Progress starts a bar for total units of work.
func (e *Env) Progress(what string, total int64) *Progress {
	f, ok := unprinted(e.Stderr).(*os.File)
	if !ok || e.Quiet || e.JSON || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &Progress{bar: progressbar.NewOptions64(total,
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true),
	)}
}

// Set sets how many units are done.
func (p *Progress) Set(done int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.bar.Set64(done) // an error means that the terminal is gone, which does not matter
}

// Clear removes the bar, so that the next output starts on an empty line. The bar cannot be used again.
func (p *Progress) Clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.bar.Exit()
	_ = p.bar.Clear()
}
