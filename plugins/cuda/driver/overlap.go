package driver

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// Devices from this compute capability on, times 10, and drivers from this version on can overlap launches, also in
// graphs.
const (
	overlapCapability = 90
	overlapVersion    = 12040
)

// overlaps reports whether a kernel can be launched before the one before it has ended.
func (a *adapter) overlaps() bool {
	return a.capability >= overlapCapability && a.version >= overlapVersion
}

var (
	targetOf = regexp.MustCompile(`(?m)^\.version .*\n\.target sm_\d+`)
	paramOf  = regexp.MustCompile(`(?m)^\s*\.param \.u64 (\w+),?$`)
	bodyOf   = regexp.MustCompile(`(?m)^\{$`)
)

// ahead is a line of kernels.AheadMark.
type ahead struct {
	piece, skip, first, bytes int
	total                     int64
}

// readsAhead returns what a source says that its blocks read.
func readsAhead(source string) (list []ahead) {
	for {
		rest, ok := strings.CutPrefix(source, kernels.AheadMark)
		if !ok {
			return list
		}
		var line string
		line, source, _ = strings.Cut(rest, "\n")
		var a ahead
		if _, err := fmt.Sscan(line, &a.piece, &a.skip, &a.first, &a.bytes, &a.total); err != nil {
			panic("BUG: cuda: a source begins with " + line)
		}
		list = append(list, a)
	}
}

// overlapping changes a kernel so that it may be launched while the one before it ends: it first lets the next kernel
// be launched, and then waits for the end of the one before. This hides the time that a launch takes. As all kernels of
// a stream do so, each sees what all before it have written. Meanwhile, the first thread of a block asks for the weights
// that the block will read.
func overlapping(text string, list []ahead) (string, bool) {
	at, target := bodyOf.FindStringIndex(text), targetOf.FindStringIndex(text)
	if at == nil || target == nil || target[0] > at[0] {
		return text, false
	}
	params := paramOf.FindAllStringSubmatch(text[:at[0]], -1)
	return text[:target[0]] + ".version 8.0\n.target sm_90" + text[target[1]:at[1]] +
		"\n  griddepcontrol.launch_dependents;" + prefetches(params, list) + "\n  griddepcontrol.wait;" +
		text[at[1]:], true
}

// prefetches returns the text that brings parts of operands to the L2 cache. They must begin at a multiple of 16 bytes
// and have such a size. params are the names of the kernel's parameters: for each binding the address and the length.
func prefetches(params [][]string, list []ahead) string {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, "\n    "+format+";", args...) }
	for i, a := range list {
		if a.skip%16 != 0 || a.bytes%16 != 0 || a.bytes <= 0 || a.total%16 != 0 {
			continue
		}
		count := (a.total + int64(a.bytes) - 1) / int64(a.bytes)
		add("sub.u32 %%ahead_r1, %%ahead_r0, %d", a.first)
		add("setp.ge.u32 %%ahead_p0, %%ahead_r1, %d", count)
		add("@%%ahead_p0 bra AHEAD%d", i)
		add("ld.param.u64 %%ahead_d0, [%s]", params[2*a.piece][1])
		add("cvta.to.global.u64 %%ahead_d0, %%ahead_d0")
		add("mul.wide.u32 %%ahead_d1, %%ahead_r1, %d", a.bytes)
		add("sub.u64 %%ahead_d2, %d, %%ahead_d1", a.total)
		add("min.u64 %%ahead_d2, %%ahead_d2, %d", a.bytes)
		add("cvt.u32.u64 %%ahead_r2, %%ahead_d2")
		add("add.u64 %%ahead_d0, %%ahead_d0, %%ahead_d1")
		add("cp.async.bulk.prefetch.L2.global [%%ahead_d0+%d], %%ahead_r2", a.skip)
		fmt.Fprintf(&b, "\n  AHEAD%d:", i)
	}
	if b.Len() == 0 {
		return ""
	}
	return `
  {
    .reg .pred %ahead_p<1>;
    .reg .b32 %ahead_r<3>;
    .reg .b64 %ahead_d<3>;
    mov.u32 %ahead_r0, %tid.x;
    setp.ne.u32 %ahead_p0, %ahead_r0, 0;
    @%ahead_p0 bra AHEAD;
    mov.u32 %ahead_r0, %ctaid.y;
    mov.u32 %ahead_r1, %nctaid.x;
    mov.u32 %ahead_r2, %ctaid.x;
    mad.lo.u32 %ahead_r0, %ahead_r0, %ahead_r1, %ahead_r2;` + b.String() + `
  AHEAD:
  }`
}
