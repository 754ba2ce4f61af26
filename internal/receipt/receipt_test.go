package receipt

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"reflect"
	"strings"
	"testing"
	"time"
)

var digest = strings.Repeat("0123456789abcdef", 4)

func sample() *Receipt {
	return &Receipt{Format: Format, Program: Program{Version: "0.1.0", OS: "linux", Arch: "amd64"},
		Began: time.Date(2026, 5, 4, 3, 2, 1, 5, time.UTC), MS: 12.5, Artifact: File{"a.rlx", 12, digest},
		Inputs: []File{{"<in>.png", 3, digest}}, Flags: []Flag{{"image", "<in>.png"}, {"output", "m.png"}},
		Device: Device{"cpu", "0.1.0", "cpu:0", "f32"}, Methods: []Method{{"encode", 1, 3.5}},
		Results: []Result{{"mask", "m.png", 7, digest}, {"text", "", 0, digest}}}
}

func text(t *testing.T, r *Receipt) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSigned(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := sample()
	if _, err := r.Verify(); err == nil || !strings.Contains(err.Error(), "is not signed") {
		t.Errorf("without a signature: %v", err)
	}
	if err := r.Sign(private); err != nil {
		t.Fatal(err)
	}
	data := text(t, r)
	back, err := Parse(data)
	if err != nil || !reflect.DeepEqual(back, r) {
		t.Fatalf("%+v is read as %+v: %v", r, back, err)
	}
	if key, err := back.Verify(); err != nil || !key.Equal(public) {
		t.Errorf("key %v, %v", key, err)
	}
	// Every byte of the file belongs to the signed text or to the signature.
	for i, b := range data {
		if b == ' ' || b == '\n' {
			continue
		}
		changed := bytes.Clone(data)
		changed[i] ^= 1
		r, err := Parse(changed)
		if err == nil {
			_, err = r.Verify()
		}
		if err == nil {
			t.Errorf("byte %d of the receipt can be changed: %q", i, changed[max(0, i-20):min(len(data), i+20)])
		}
	}
}

func TestParseRefused(t *testing.T) {
	good := string(text(t, sample()))
	for name, c := range map[string][2]string{
		"not JSON":       {"{", "is not JSON"},
		"another":        {`{"a": 1}`, "version 0"},
		"a later one":    {strings.Replace(good, `"receipt": 1`, `"receipt": 2`, 1), "version 2"},
		"unknown":        {strings.Replace(good, `"ms"`, `"more": 1, "ms"`, 1), "unknown field"},
		"twice":          {strings.Replace(good, `"ms"`, `"ms": 12.5, "ms"`, 1), "twice there"},
		"another case":   {strings.Replace(good, `"ms"`, `"MS"`, 1), "twice there"},
		"followed":       {good + "{}", "JSON"},
		"a short digest": {strings.ReplaceAll(good, digest, digest[:62]), "64 hexadecimal digits"},
	} {
		if _, err := Parse([]byte(c[0])); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v; want %q", name, err, c[1])
		}
	}
}

func TestKeys(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	secret := block("PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(public)
	open := block("PUBLIC KEY", der, err)
	if key, err := PrivateKey(secret); err != nil || !key.Equal(private) {
		t.Error(err)
	}
	if key, err := PublicKey(open); err != nil || !key.Equal(public) {
		t.Error(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err = x509.MarshalPKCS8PrivateKey(other)
	for want, data := range map[string][]byte{"no block": nil, "BEGIN PUBLIC KEY; want": open,
		"another algorithm": block("PRIVATE KEY", der, err), "is damaged": block("PRIVATE KEY", der[:20], err)} {
		if _, err := PrivateKey(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if f := Fingerprint(public); !strings.HasPrefix(f, "SHA256:") || len(f) != 50 {
		t.Error(f)
	}
}

// FuzzParse checks that Write reproduces every text that Parse accepts.
func FuzzParse(f *testing.F) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"receipt":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		again, err := Parse(text(t, r))
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("%+v is read as %+v: %v", r, again, err)
		}
		r.Verify()
	})
}
