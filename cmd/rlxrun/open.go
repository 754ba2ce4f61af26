package main

import (
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
)

// openModel opens an artifact and checks all of it but the digests of the weights.
func openModel(path, _ string) (*model, error) {
	return nil, diag.New(CodeArtifactRead, path, "this build of rlxrun has no artifact reader")
}

// encodeProgram is the form in which a backend gets a program.
func encodeProgram(p *program.Program) ([]byte, error) {
	return nil, diag.New(CodeArtifactRead, p.Method, "this build of rlxrun has no artifact writer")
}
