// Package pagetest makes requests of pages of package localpage, as their tests need them.
package pagetest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Ask makes a request as the page at url does, which ends in a slash. path is relative to it.
func Ask(page http.Handler, method, url, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url+path, strings.NewReader(body))
	r.Header.Set("Origin", r.URL.Scheme+"://"+r.URL.Host)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w
}

// Want checks the status of an answer, and that it contains the texts.
func Want(t *testing.T, what string, w *httptest.ResponseRecorder, status int, texts ...string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("%s: status %d, want %d: %s", what, w.Code, status, w.Body)
	}
	for _, text := range texts {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s: %s lacks %q", what, w.Body, text)
		}
	}
}
