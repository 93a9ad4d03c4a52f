package seal

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
)

var errKey = errors.New("the public key is not one of Ed25519: 32 bytes or SubjectPublicKeyInfo, in base64 or PEM")

// ParseKey reads a public key: its 32 bytes, or its SubjectPublicKeyInfo, in
// base64, of either alphabet and padded or not, or that in PEM.
func ParseKey(text string) (ed25519.PublicKey, error) {
	text = strings.TrimSpace(text)
	if block, rest := pem.Decode([]byte(text)); block != nil {
		if block.Type != "PUBLIC KEY" || len(rest) > 0 {
			return nil, errKey
		}
		return parseInfo(block.Bytes)
	}
	alphabet := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		alphabet = base64.RawURLEncoding
	}
	raw, err := alphabet.Strict().DecodeString(strings.TrimRight(text, "="))
	switch {
	case err != nil:
		return nil, errKey
	case len(raw) == ed25519.PublicKeySize:
		return raw, nil
	}
	return parseInfo(raw)
}

func parseInfo(der []byte) (ed25519.PublicKey, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if of, ok := key.(ed25519.PublicKey); ok && err == nil {
		return of, nil
	}
	return nil, errKey
}
