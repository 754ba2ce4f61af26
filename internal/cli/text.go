package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rlx-go/rlx/core/diag"
)

// maxNamePart is the number of bytes of a long text that FileName keeps. File systems allow 255 bytes per name, and a
// name has several parts.
const maxNamePart = 80

// FileName converts untrusted text, such as a method's name in an artifact, to part of a file name. It keeps letters,
// digits, -, _, +, =, [ and ], and dots except at the start; everything else becomes _. The result is never empty,
// never names another folder, and has at most 100 bytes. A longer text is replaced by its beginning and a digest, so
// that different texts give different names.
func FileName(text string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '_'
		case unicode.IsLetter(r), unicode.IsDigit(r), strings.ContainsRune("-_+=[].", r):
			return r
		}
		return '_'
	}, text)
	if len(name) > maxNamePart {
		sum := sha256.Sum256([]byte(text))
		end := maxNamePart
		for !utf8.RuneStart(name[end]) {
			end--
		}
		name = name[:end] + "-" + hex.EncodeToString(sum[:8])
	}
	if name == "" || name[0] == '.' {
		name = "_" + strings.TrimPrefix(name, ".")
	}
	return name
}

// printer is standard output or standard error for text. It replaces control characters (diag.PrintableRune) except
// line breaks and tabs in everything that a command prints, including names from files and messages of backends. It may
// be used concurrently.
type printer struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // the first bytes of a rune that the last Write cut
}

func (p *printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := b
	if len(p.rest) > 0 {
		text = append(p.rest, b...)
	}
	end := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if c := text[len(text)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[len(text)-i:]) {
				end = len(text) - i
			}
			break
		}
	}
	p.rest = append([]byte(nil), text[end:]...)
	out := text[:end]
	if !plain(out) {
		out = []byte(strings.Map(func(r rune) rune {
			if r == '\n' || r == '\t' {
				return r
			}
			return diag.PrintableRune(r)
		}, string(out)))
	}
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// plain reports whether b is printable ASCII, as most output is.
func plain(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\t' || c > '~' {
			return false
		}
	}
	return true
}

// printableJSON escapes the characters in JSON that printer would replace, so that programs that read the output still
// get them. Such characters occur only in strings.
func printableJSON(b []byte) []byte {
	if plain(b) {
		return b
	}
	var out []byte
	for _, r := range string(b) {
		switch {
		case r == '\n' || r == '\t' || diag.PrintableRune(r) == r:
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// unprinted returns the stream under a printer, or w if it is not a printer.
func unprinted(w io.Writer) io.Writer {
	if p, ok := w.(*printer); ok {
		return p.w
	}
	return w
}
