package receipt

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
)

// MaxKey is the size of the largest file with a key, in bytes.
const MaxKey = 64 << 10

// PrivateKey reads an Ed25519 key in PEM, PKCS #8 (RFC 8410), as "openssl genpkey -algorithm ed25519" writes it.
func PrivateKey(data []byte) (ed25519.PrivateKey, error) {
	v, err := decode(data, "PRIVATE KEY", x509.ParsePKCS8PrivateKey)
	if err != nil {
		return nil, err
	}
	key, ok := v.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("is a key for another algorithm (%T); allowed is Ed25519", v)
	}
	return key, nil
}

// PublicKey reads the public half of such a key in PEM, as "openssl pkey -pubout" writes it.
func PublicKey(data []byte) (ed25519.PublicKey, error) {
	v, err := decode(data, "PUBLIC KEY", x509.ParsePKIXPublicKey)
	if err != nil {
		return nil, err
	}
	key, ok := v.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("is a key for another algorithm (%T); allowed is Ed25519", v)
	}
	return key, nil
}

func decode(data []byte, kind string, parse func([]byte) (any, error)) (any, error) {
	b, _ := pem.Decode(data)
	switch {
	case b == nil:
		return nil, fmt.Errorf("has no block BEGIN %s", kind)
	case b.Type != kind:
		return nil, fmt.Errorf("has a block BEGIN %s; want BEGIN %s", b.Type, kind)
	}
	v, err := parse(b.Bytes)
	if err != nil {
		return nil, errors.New("is damaged, or a key of another kind")
	}
	return v, nil
}

// Fingerprint names a public key: SHA256: and its digest in base64.
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}
