package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMacros checks the macro for uses that differ in registers and numbers, one of them within another.
func TestMacros(t *testing.T) {
	sections = []section{
		{"OUTER", "OUTER is outer.", []param{{"w", nil}, {"block", 0}}},
		{"INNER", "INNER is inner.", []param{{"x", nil}}},
		{"OUTER", "OUTER is outer.", []param{{"w", nil}, {"block", 2}}},
		{"INNER", "INNER is inner.", []param{{"x", nil}}},
		{"ONCE", "ONCE is not a macro.", nil},
	}
	file := filepath.Join(t.TempDir(), "a.s")
	in := `#include "textflag.h"

// func f()
TEXT ·f(SB), NOSPLIT, $0
	BEGIN_0  CX
	VMOVUPS  (CX), Y0
	VMOVUPS  8(CX), Y1
	BEGIN_1  Y4
	VADDPS   Y0, Y4, Y4
	VADDSS   X1, X4, X4
	END
	END
	BEGIN_2  DX
	VMOVUPS  32(DX), Y0
	VMOVUPS  40(DX), Y2
	BEGIN_3  Y5
	VADDPS   Y0, Y5, Y5
	VADDSS   X2, X5, X5
	END
	END
	BEGIN_4
	VZEROUPPER
	SFENCE
	END
	RET
`
	want := `#include "textflag.h"

// INNER is inner.
#define INNER(x, t1, xX) \
	VADDPS Y0, x, x; \
	VADDSS t1, xX, xX

// OUTER is outer.
#define OUTER(w, block, t2, t3, t2X, t3X) \
	VMOVUPS 16*block(w), Y0; \
	VMOVUPS 8+16*block(w), t2; \
	INNER(t3, t2X, t3X)

// func f()
TEXT ·f(SB), NOSPLIT, $0
	OUTER(CX, 0, Y1, Y4, X1, X4)
	OUTER(DX, 2, Y2, Y5, X2, X5)
	VZEROUPPER
	SFENCE
	RET
`
	if err := os.WriteFile(file, []byte(in), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeMacros(file); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	bad := strings.Replace(in, "VADDSS   X2", "VSUBSS   X2", 1) // uses with different instructions
	if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("uses with different instructions are one macro")
		}
	}()
	err = writeMacros(file)
	t.Errorf("uses with different instructions: %v", err)
}

// TestEncodings checks that an instruction of SSE is found among those of AVX.
func TestEncodings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.s")
	for line, bad := range map[string]bool{"\tMOVD         R11, X5": true, "\tMOVSS (AX), X0": true,
		"\tVMOVD R11, X5": false, "\tMOVQ AX, CX": false, "\tKMOVW K1, AX": false, "\tVADDPS X1, X2, X3": false,
		"\tSUM_LANES8(Y1, X0, X1)": false} {
		if err := os.WriteFile(file, []byte("TEXT ·f(SB), NOSPLIT, $0\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := checkEncodings(file) != nil; got != bad {
			t.Errorf("%q: rejected is %t", line, got)
		}
	}
}
