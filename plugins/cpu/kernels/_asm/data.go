package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// dataMacros define constants in a file of assembly, a line for each. Files contain those that they use.
var dataMacros = []struct{ name, text string }{
	{"FOUR", `// FOUR puts four copies of a dword at name+at.
#define FOUR(name, at, bits) \
	DATA name<>+(at)(SB)/8, $(bits<<32+bits); \
	DATA name<>+(at+8)(SB)/8, $(bits<<32+bits)
`},
	{"EIGHT", `// EIGHT puts eight copies of a dword at name+at.
#define EIGHT(name, at, bits) \
	FOUR(name, at, bits); \
	FOUR(name, at+16, bits)
`},
	{"SIXTEEN", `// SIXTEEN defines name as a vector of sixteen copies of a dword.
#define SIXTEEN(name, bits) \
	EIGHT(name, 0, bits); \
	EIGHT(name, 32, bits); \
	GLOBL name<>(SB), RODATA|NOPTR, $64
`},
	{"DWORDS", `// DWORDS puts four dwords at name+at.
#define DWORDS(name, at, a, b, c, d) \
	DATA name<>+(at)(SB)/8, $(b<<32+a); \
	DATA name<>+(at+8)(SB)/8, $(d<<32+c)
`},
}

// dwords4 returns the definition of 16 bytes of a symbol.
func dwords4(name string, at int, l [4]uint32) string {
	if l == sameLanes(l[0]) {
		return fmt.Sprintf("FOUR(%s, %d, %#08x)\n", name, at, l[0])
	}
	return fmt.Sprintf("DWORDS(%s, %d, %#08x, %#08x, %#08x, %#08x)\n", name, at, l[0], l[1], l[2], l[3])
}

// withDataMacros puts the macros that the text of a file uses after its include lines.
func withDataMacros(text string) string {
	var used string
	for i := len(dataMacros) - 1; i >= 0; i-- {
		if m := dataMacros[i]; regexp.MustCompile(`(?m)^\s*` + m.name + `\(`).MatchString(used + text) {
			used = m.text + "\n" + used
		}
	}
	const after = "#include \"textflag.h\"\n"
	return strings.Replace(text, after, after+"\n"+strings.TrimSuffix(used, "\n"), 1)
}

// A symbol's data as avo writes it, and one of its lines.
var (
	symbolData = regexp.MustCompile(`(?m)(?:^DATA .*\n)+^GLOBL (\w+)<>\(SB\), RODATA\|NOPTR, \$(\d+)\n`)
	dataLine   = regexp.MustCompile(`(?m)^DATA \w+<>\+(\d+)\(SB\)/(\d), \$(0x[0-9a-f]+)$`)
	blankLine  = regexp.MustCompile(`(?m)^(SIXTEEN\(.*\n)\n(?:SIXTEEN)`)
)

// shortenData rewrites the constants of a file, of which avo writes each element in a line of its own.
func shortenData(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	short := symbolData.ReplaceAllStringFunc(string(text), func(data string) string {
		var name string
		var size int
		m := symbolData.FindStringSubmatch(data)
		name = m[1]
		fmt.Sscan(m[2], &size)
		if size%16 > 0 {
			return data
		}
		bytes := make([]byte, size)
		for _, m := range dataLine.FindAllStringSubmatch(data, -1) {
			var at, width int
			var bits uint64
			fmt.Sscan(m[1], &at)
			fmt.Sscan(m[2], &width)
			fmt.Sscan(m[3], &bits)
			copy(bytes[at:], binary.LittleEndian.AppendUint64(nil, bits)[:width])
		}
		var lines []string
		for at := 0; at < size; at += 16 {
			var l [4]uint32
			for i := range l {
				l[i] = binary.LittleEndian.Uint32(bytes[at+4*i:])
			}
			lines = append(lines, dwords4(name, at, l))
			if at == 48 && size == 64 && slices.Equal(bytes[4:], bytes[:60]) {
				return fmt.Sprintf("SIXTEEN(%s, %#08x)\n", name, l[0])
			}
		}
		return strings.Join(lines, "") + data[strings.Index(data, "GLOBL"):]
	})
	for blankLine.MatchString(short) {
		short = blankLine.ReplaceAllString(short, "${1}SIXTEEN")
	}
	return os.WriteFile(file, []byte(withDataMacros(short)), 0o644)
}
