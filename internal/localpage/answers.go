package localpage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/rlx-go/rlx/core/diag"
)

// MaxTab is the largest number of bytes of a tab's name.
const MaxTab = 64

// Failure is the answer to a request that failed.
type Failure struct {
	Error string `json:"error"`
	Code  string `json:"code"` // for `rlxrun explain`
}

// BadRequest returns an error about a request that no page sends.
func BadRequest(format string, args ...any) error {
	return diag.New(diag.Usage, "request", format, args...)
}

// ReadJSON decodes a body that consists of one JSON value, without unknown fields, into to.
func ReadJSON(body io.Reader, to any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return BadRequest("is not JSON as the page sends it: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return BadRequest("goes on after its end")
	}
	return nil
}

// CheckTab checks a tab's name in a request.
func CheckTab(tab string) error {
	if len(tab) > MaxTab {
		return BadRequest("tab has %d bytes; allowed are %d", len(tab), MaxTab)
	}
	return nil
}

// Fail answers with an error. Errors of classes 1, 2, 3 and 8 are about the user's input.
func (p *Page) Fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client has gone
	}
	f, status := Failure{Error: err.Error(), Code: string(diag.Internal)}, http.StatusInternalServerError
	if code, ok := diag.CodeOf(err); ok {
		f.Code = string(code)
	}
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, errSuperseded):
		status, f.Code = http.StatusConflict, string(diag.Interrupted)
	case errors.As(err, &tooLong):
		f, status = Failure{fmt.Sprintf("the file has more than %d MB", tooLong.Limit>>20), string(diag.Usage)},
			http.StatusRequestEntityTooLarge
	case errors.Is(err, diag.Class(1)), errors.Is(err, diag.Class(2)), errors.Is(err, diag.Class(3)),
		errors.Is(err, diag.Class(8)):
		status = http.StatusUnprocessableEntity
	case p.failed != nil:
		p.failed(err)
	}
	Reply(w, status, f)
}

// Reply answers with a value as JSON.
func Reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
