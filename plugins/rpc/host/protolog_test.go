//go:build linux || darwin

package host

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
)

// TestProtocolLog checks that each message is logged with its direction, call, size and fields, also those of direct
// runs and of failed calls.
func TestProtocolLog(t *testing.T) {
	t.Parallel()
	for _, chunks := range []bool{false, true} {
		log := &rpctest.LogBuffer{}
		opts, _ := testOptions(t, "good")
		opts.NoSharedMemory, opts.Protocol = chunks, log
		s := start(t, opts)
		if _, err := runOnce(t.Context(), t, s, 40); err != nil {
			t.Fatal(err)
		}
		_, err := s.LoadMapped(
			t.Context(), LoadOptions{Program: rpctest.Program(t), Weights: Weights{Offset: rpctest.WeightsAt, Size: 64},
				Device: "none"})
		wantCode(t, err, device.ErrUnavailable)
		s.Close()
		want := []string{`# starts /`, `# handshake: version 2, socket /`, `> Info InfoRequest, 0 bytes: {}`,
			`< Info InfoReply, \d+ bytes: {name: "ref", version: "1", `,
			`> Load LoadRequest, \d+ bytes: {header: {program_size: \d+, program_sha256: [0-9a-f]{64}, weights: {size: 64, offset: 4352, mapped: true, `,
			`> Load LoadRequest, \d+ bytes: {program: [0-9a-f]{64}... \(\d+ bytes\)}`, `> Load end of stream`,
			`< Load LoadReply, \d+ bytes: {executable: 1, `,
			`> Run \(direct\) RunHeader, \d+ bytes: {executable: 1, generation: 1, inputs: \[{size: 640}\], outputs: \[{offset: \d+, size: 640}\], syms: {N: 40}}`,
			`< Run \(direct\) Done, \d+ bytes: {generation: 1, total_ns: \d+, `,
			`> Unload UnloadRequest, 2 bytes: {executable: 1}`,
			`< Load failed: status Internal, Error: {code: "RLX6001", subject: "ref", message: "device \\"none\\": have only 0", hint: "leave --device out"}`,
			`> Shutdown Empty, 0 bytes: {}`, `# the session ends: backend ref: was closed`}
		if chunks {
			want[8], want[9] = `> Run RunRequest, \d+ bytes: {input: {data: [0-9a-f]{64}... \(640 bytes\)}}`,
				`< Run RunReply, \d+ bytes: {done: {generation: 1, `
		}
		for _, w := range want {
			if !regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{6} ref ` + w).MatchString(log.String()) {
				t.Errorf("the log lacks %q:\n%s", w, log)
			}
		}
		if strings.ContainsRune(log.String(), 0x1b) {
			t.Error("the log has control characters")
		}
	}
}
