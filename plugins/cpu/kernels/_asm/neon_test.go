package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestNEONWords checks that GNU's assembler encodes the syntax in the comment beside each word as that word. It needs
// binutils for arm64: apt-get install binutils-aarch64-linux-gnu.
func TestNEONWords(t *testing.T) {
	words := map[string]uint32{}
	for _, text := range neonTexts(t) {
		for _, m := range regexp.MustCompile(`WORD \$0x([0-9a-f]{8}) // (.*)`).FindAllStringSubmatch(text, -1) {
			w, err := strconv.ParseUint(m[1], 16, 32)
			if old, ok := words[m[2]]; err != nil || ok && old != uint32(w) {
				t.Fatalf("%s is %s and %08x", m[2], m[1], old)
			}
			words[m[2]] = uint32(w)
		}
	}
	var lines []string
	for line := range words {
		lines = append(lines, line)
	}
	dir := t.TempDir()
	in, object, out := filepath.Join(dir, "in.s"), filepath.Join(dir, "in.o"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte(".arch armv8.6-a\n"+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"aarch64-linux-gnu-as", "-o", object, in},
		{"aarch64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", object, out}} {
		if said, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, said)
		}
	}
	code, err := os.ReadFile(out)
	if err != nil || len(code) != 4*len(lines) || len(lines) == 0 {
		t.Fatalf("%d bytes of code for %d lines (%v)", len(code), len(lines), err)
	}
	for i, line := range lines {
		if want := binary.LittleEndian.Uint32(code[4*i:]); words[line] != want {
			t.Errorf("%s is written as %08x, the assembler has %08x", line, words[line], want)
		}
	}
}

// TestNEONFresh checks that the files of the packages are what this program writes.
func TestNEONFresh(t *testing.T) {
	for path, text := range neonTexts(t) {
		if got, err := os.ReadFile(filepath.Join("..", path)); err != nil || string(got) != text {
			t.Errorf("%s is stale: run go generate in plugins/cpu/kernels (%v)", path, err)
		}
	}
}

func neonTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for part := range neonParts {
		source, declarations, err := neonPart(part)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Join(folders[part], part+"_arm64")
		texts[base+".s"], texts[base+".go"] = source, declarations
	}
	return texts
}

// TestNEONRegisters checks that a physical register is reused after the last use of its value, but not within a loop
// that reads the value again.
func TestNEONRegisters(t *testing.T) {
	f := new(neonFile).add("f", "n int", "", "")
	n := f.param("n")
	kept, sum := f.zero(), f.zero()
	f.label("loop")
	f.into("fadd", sum, sum, kept) // the last use of kept in the text; the loop reads it again
	other := f.zero()
	f.into("fadd", sum, sum, other)
	f.count(n, "loop")
	after := f.zero()
	f.into("fadd", sum, sum, after)
	number := f.numbers()
	if number[kept] == number[other] || number[sum] == number[other] || number[kept] == number[sum] {
		t.Errorf("two values that are live at the same time share a register: %v", number)
	}
	if number[after] > 2 {
		t.Errorf("no register was free after the loop: %v", number)
	}
	defer func() {
		if !strings.Contains(fmt.Sprint(recover()), "more than 32") {
			t.Error("33 values fit in 32 registers")
		}
	}()
	var many []vreg
	for range 33 {
		many = append(many, f.zero())
	}
	for _, r := range many {
		f.into("fadd", sum, sum, r)
	}
	f.numbers()
}
