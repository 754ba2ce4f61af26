// Package receipt reads and writes receipts of runs: what a run read, what ran it, and the digests of what it made.
package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Format is the version of the format that this package writes.
const Format = 1

// Max is the size of the largest receipt, in bytes.
const Max = 64 << 20

// A Receipt describes a run. Its JSON has the fields in this order.
type Receipt struct {
	Format   int       `json:"receipt"`
	Program  Program   `json:"program"`
	Began    time.Time `json:"began"` // UTC
	MS       float64   `json:"ms"`    // from the start of the program to the end of the run
	Artifact File      `json:"artifact"`
	Inputs   []File    `json:"inputs"` // files that the run read, in the order of the flags
	Flags    []Flag    `json:"flags"`  // flags that may change the results
	Device   Device    `json:"device"`
	Methods  []Method  `json:"methods"`
	Results  []Result  `json:"results"`

	Signature *Signature `json:"signature,omitempty"`
}

// Program is what ran.
type Program struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// File is a file with its content.
type File struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Flag is a flag and its value. A flag that was given several times occurs several times.
type Flag struct {
	Name  string `json:"name"` // without dashes
	Value string `json:"value"`
}

// Device is where the run was computed. Equal devices give equal results.
type Device struct {
	Backend   string `json:"backend"`
	Version   string `json:"version"` // of the backend
	Device    string `json:"device"`
	Precision string `json:"precision"`
}

func (d Device) String() string {
	return fmt.Sprintf("%s (backend %s %s, %s)", d.Device, d.Backend, d.Version, d.Precision)
}

// Method is a method of the artifact that ran.
type Method struct {
	Name string  `json:"name"`
	Runs int     `json:"runs"`
	MS   float64 `json:"ms"`
}

// Result is something that the run made.
type Result struct {
	Name   string `json:"name"`           // of the output, such as mask, or text
	Path   string `json:"path,omitempty"` // of its file; empty if it went to standard output
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Signature is an Ed25519 signature (RFC 8032) of the receipt without this field, as compact JSON.
type Signature struct {
	Key   string `json:"ed25519_key"` // public key, 32 bytes in base64
	Value string `json:"value"`       // 64 bytes in base64
}

// message returns the bytes that are signed.
func (r *Receipt) message() ([]byte, error) {
	c := *r
	c.Signature = nil
	return json.Marshal(&c)
}

// Sign adds a signature.
func (r *Receipt) Sign(key ed25519.PrivateKey) error {
	m, err := r.message()
	if err != nil {
		return err
	}
	encode := base64.StdEncoding.EncodeToString
	r.Signature = &Signature{encode(key.Public().(ed25519.PublicKey)), encode(ed25519.Sign(key, m))}
	return nil
}

// Verify checks the signature and returns the key that made it. A receipt without a signature is an error.
func (r *Receipt) Verify() (ed25519.PublicKey, error) {
	if r.Signature == nil {
		return nil, errors.New("is not signed")
	}
	key, err := base64.StdEncoding.Strict().DecodeString(r.Signature.Key)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("has a public key that is not %d bytes in base64", ed25519.PublicKeySize)
	}
	value, err := base64.StdEncoding.Strict().DecodeString(r.Signature.Value)
	if err != nil || len(value) != ed25519.SignatureSize {
		return nil, fmt.Errorf("has a signature that is not %d bytes in base64", ed25519.SignatureSize)
	}
	m, err := r.message()
	if err != nil {
		return nil, err
	}
	if !ed25519.Verify(key, m, value) {
		return nil, errors.New("has a signature that does not fit: it was changed after it was signed")
	}
	return key, nil
}

// Write writes the receipt, indented.
func (r *Receipt) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Parse reads a receipt. It accepts exactly the texts that Write writes. A field that is unknown, twice there or in
// another place is an error, so that a file contains nothing that its signature does not cover.
func Parse(data []byte) (*Receipt, error) {
	var version struct {
		Format int `json:"receipt"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if version.Format != Format {
		return nil, fmt.Errorf("is a receipt of version %d; this program reads version %d", version.Format, Format)
	}
	var r Receipt
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("is not a receipt: %w", err)
	}
	var again, compact bytes.Buffer
	if err := errors.Join(json.NewEncoder(&again).Encode(&r), json.Compact(&compact, data)); err != nil {
		return nil, err
	}
	if !bytes.Equal(bytes.TrimSpace(again.Bytes()), bytes.TrimSpace(compact.Bytes())) {
		return nil, errors.New("is not as rlxrun writes it: a field is missing, twice there or in another place")
	}
	return &r, r.check()
}

// check checks the digests.
func (r *Receipt) check() error {
	digests := map[string]string{"the artifact": r.Artifact.SHA256}
	for _, f := range r.Inputs {
		digests[f.Path] = f.SHA256
	}
	for _, x := range r.Results {
		digests["result "+x.Name] = x.SHA256
	}
	for of, d := range digests {
		if b, err := hex.DecodeString(d); err != nil || len(b) != 32 {
			return fmt.Errorf("has a digest of %s that is not 64 hexadecimal digits", of)
		}
	}
	return nil
}
