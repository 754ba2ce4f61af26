//go:build !unix

package main

import "github.com/rlx-go/rlx/internal/cli"

func systemCommands() []*cli.Command { return nil }
