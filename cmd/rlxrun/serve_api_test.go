package main

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/rlxtest"
)

// TestServeMethods: with --api the methods of an artifact that segments images run for programs. A backend that was
// killed is started again, and the request repeated.
func TestServeMethods(t *testing.T) {
	before := rlxtest.Children(t)
	ask, end, notes := servedBy(t, tinySession(t, debugFlags{}), &serveFlags{api: apiFlags{api: true}})
	name := "/v2/models"
	status, body := ask("POST", "/v2/repository/index", "")
	if status != http.StatusOK || !bytes.Contains(body, []byte(".encode")) {
		t.Fatalf("index: status %d: %s", status, body)
	}
	model, _, _ := strings.Cut(strings.SplitAfter(string(body), `"name":"`)[1], `.`)
	name += "/" + model + ".encode"
	status, about := ask("GET", name, "")
	if status != http.StatusOK {
		t.Fatalf("metadata: status %d: %s", status, about)
	}
	status, body = ask("POST", name+"/infer", `{"inputs":[]}`)
	if status != http.StatusBadRequest {
		t.Errorf("without inputs: status %d: %s", status, body)
	}
	request := `{"inputs":[{"name":"image","datatype":"FP32","shape":[1,3,8,8],"data":[` +
		strings.TrimSuffix(strings.Repeat("0.5,", 3*8*8), ",") + `]}]}`
	status, want := ask("POST", name+"/infer", request)
	if status != http.StatusOK || !bytes.Contains(want, []byte(`"data":[`)) {
		t.Fatalf("status %d: %.300s; metadata %s", status, want, about)
	}
	rlxtest.Kill(t, before)
	if status, body = ask("POST", name+"/infer", request); status != http.StatusOK || !bytes.Equal(body, want) {
		t.Errorf("after a kill: status %d: %.300s", status, body)
	}
	stop := errors.New("a signal")
	if err := end(stop); err != stop {
		t.Errorf("the command ends with %v", err)
	}
	if !strings.Contains(notes.String(), "; it was started again\n") {
		t.Errorf("stderr is %q", notes)
	}
}
