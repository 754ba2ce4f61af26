package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlx-go/rlx/internal/regular"
)

// `--backend auto` remembers its results in the user's cache, as small text files: in rlx/speed the times that `rlxrun
// bench` has measured, a file for each artifact, and in rlx/lacks the backends without a device, a file for each
// executable. Losing or changing them changes only the speed of runs.

const (
	// lackTime is how long a backend without a device is not asked again. "rlxrun devices" and "rlxrun doctor" ask.
	lackTime = time.Hour
	// memorySize bounds a file, in bytes.
	memorySize = 64 << 10
)

// memoryFile returns the file about something in a folder of the cache. key is text of any form.
func memoryFile(folder, key string) (string, bool) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", false
	}
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(dir, "rlx", folder, hex.EncodeToString(sum[:16])), true
}

func readMemory(folder, key string) string {
	path, ok := memoryFile(folder, key)
	if !ok {
		return ""
	}
	b, err := regular.ReadFile(path, memorySize)
	if err != nil {
		return ""
	}
	return string(b)
}

// writeMemory replaces a file; empty text removes it. If it fails, nothing is remembered.
func writeMemory(folder, key, text string) {
	path, ok := memoryFile(folder, key)
	if !ok {
		return
	}
	if text == "" {
		os.Remove(path)
		return
	}
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err != nil || cerr != nil || os.Rename(f.Name(), path) != nil {
		os.Remove(f.Name())
	}
}

// stampOf identifies an executable: another version has another size or time. It is empty if there is no such file.
func stampOf(path string) string {
	st, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d", path, st.Size(), st.ModTime().UnixNano())
}

// rememberedLack returns why a backend could not be used a short time ago, or "".
func rememberedLack(path string) string {
	when, why, ok := strings.Cut(readMemory("lacks", stampOf(path)), " ")
	at, err := strconv.ParseInt(when, 10, 64)
	if age := time.Since(time.Unix(at, 0)); !ok || err != nil || age < 0 || age > lackTime {
		return ""
	}
	return why
}

// rememberLack notes why a backend cannot be used; why is empty if it can.
func rememberLack(path, why string) {
	if why != "" {
		why = fmt.Sprintf("%d %s", time.Now().Unix(), why)
	}
	writeMemory("lacks", stampOf(path), why)
}

// A speed is a remembered time. What was measured, and where, are words without tabs and line breaks.
type speed struct {
	what, executable, device string
	ms                       float64
}

// speedsOf returns the remembered times of an artifact.
func speedsOf(artifact string) (out []speed) {
	for line := range strings.Lines(readMemory("speed", artifact)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			continue
		}
		if ms, err := strconv.ParseFloat(f[3], 64); err == nil && ms > 0 {
			out = append(out, speed{f[0], f[1], f[2], ms})
		}
	}
	return out
}

// rememberSpeed notes a measured time in place of an older one.
func rememberSpeed(artifact string, s speed) {
	var b strings.Builder
	for _, o := range append(speedsOf(artifact), s) {
		if o.what == s.what && o.executable == s.executable && o.device == s.device && o != s {
			continue
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%g\n", o.what, o.executable, o.device, o.ms)
	}
	writeMemory("speed", artifact, b.String())
}

// rememberedSpeeds sets the times of candidates: of the newest measurement that was made on all of them that can be
// used.
func rememberedSpeeds(artifact string, all []*candidate) {
	list := speedsOf(artifact)
	for i := len(list) - 1; i >= 0; i-- {
		times := map[*candidate]float64{}
		usable := 0
		for _, c := range all {
			if c.why != "" {
				continue
			}
			usable++
			for _, s := range list {
				if s.what == list[i].what && s.executable == stampOf(c.Path) &&
					(c.Name == defaultBackend || s.device == c.device.ID) {
					times[c] = s.ms
				}
			}
		}
		if usable > 1 && len(times) == usable {
			for c, ms := range times {
				c.ms = ms
			}
			return
		}
	}
}

// rememberTime remembers what bench has measured, unless its flags make it special.
func (s *session) rememberTime(f *benchFlags, method string, sizes map[string]int64, ms float64) {
	if f.host.threads != "auto" || f.debug.any() || len(f.host.weights.Values) > 0 {
		return
	}
	what := method + " " + s.host.Precision()
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		what += fmt.Sprintf(" %s=%d", name, sizes[name])
	}
	rememberSpeed(s.model.Facts().Identity, speed{what, stampOf(s.backend.Path), s.host.Device().ID, ms})
}
