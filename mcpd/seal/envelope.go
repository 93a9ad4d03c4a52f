// Package seal has the signed envelopes that requests of MCP can come in: those
// of SEAL (seal/v1) and of SMCP (smcp/v1), which are the same but for the codes
// of errors.
//
//	{"protocol":"seal/v1","security_token":"<JWT>","signature":"<base64>",
//	 "payload":{<the request, unchanged>},"timestamp":"2026-02-17T14:32:01Z"}
//
// The signature is one of Ed25519 over
//
//	{"payload":<payload>,"security_token":"<JWT>","timestamp":<seconds>}
//
// in which the payload stands either byte for byte as it was sent, or in the
// canonical form. Who signs what is sent is the better off: programs do not
// agree on the canonical form of every number and name.
//
// Nothing here knows the time or keeps anything: package attest makes the
// tokens, and judges envelopes.
package seal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"hutch/aggd/rawjson"
)

// The protocols of envelopes.
const (
	SEAL = "seal/v1"
	SMCP = "smcp/v1"
)

// maxToken is how long a security token may be.
const maxToken = 8 << 10

// An Envelope is one that was parsed. Nothing in it is verified.
type Envelope struct {
	Protocol  string
	Token     string
	Signature []byte // of any length
	Payload   []byte // as it was sent
	Time      int64  // in seconds since 1970
}

var members = [...]string{"protocol", "security_token", "signature", "payload", "timestamp"}

// Is reports whether a message is an envelope, not a message of JSON-RPC: the
// first member says so. Nothing behind that is looked at.
func Is(data []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(data, space), []byte("{"))
	if !ok {
		return false
	}
	rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, space), []byte(`"`))
	if !ok {
		return false
	}
	for _, name := range members {
		if bytes.HasPrefix(rest, []byte(name)) && len(rest) > len(name) && rest[len(name)] == '"' {
			return true
		}
	}
	return false
}

const space = " \t\r\n"

// Parse reads an envelope. On an error the Envelope has its payload and its
// protocol, if those could be made out. Members of other names mean nothing.
func Parse(data []byte) (*Envelope, *Refusal) {
	e := &Envelope{Protocol: SEAL}
	if !utf8.Valid(data) {
		return e, e.refuse(Malformed, "the envelope: %v", rawjson.ErrUTF8)
	}
	var at [len(members)]rawjson.Span
	if err := rawjson.Members(data, members[:], at[:]); err != nil {
		return e, e.refuse(Malformed, "the envelope: %v", err)
	}
	e.Payload = at[3].Of(data)
	switch protocol := rawjson.String(at[0].Of(data)); protocol {
	case SEAL, SMCP:
		e.Protocol = protocol
	default:
		return e, e.refuse(Malformed, "the protocol is %.32q: it is %s or %s", protocol, SEAL, SMCP)
	}
	for i, name := range members {
		switch value := at[i].Of(data); {
		case value == nil:
			return e, e.refuse(Malformed, "the %s is missing", name)
		case (i == 3) != (value[0] == '{'), i != 3 && !rawjson.IsString(value):
			return e, e.refuse(Malformed, "the %s is of another type", name)
		}
	}
	if e.Token = rawjson.String(at[1].Of(data)); len(e.Token) > maxToken {
		return e, e.refuse(Malformed, "the security_token has %d bytes, at most %d", len(e.Token), maxToken)
	}
	stamp, err := time.Parse(time.RFC3339, rawjson.String(at[4].Of(data)))
	if err != nil {
		return e, e.refuse(Malformed, "the timestamp is no time of ISO 8601")
	}
	e.Time = stamp.Unix()
	e.Signature, _ = base64.StdEncoding.Strict().DecodeString(rawjson.String(at[2].Of(data))) // Verify sees to it
	return e, nil
}

// Verify reports whether the envelope is signed by the key, in either form.
func (e *Envelope) Verify(key ed25519.PublicKey) *Refusal {
	if len(e.Signature) != ed25519.SignatureSize {
		return e.refuse(BadSignature, "the signature is not %d bytes in base64", ed25519.SignatureSize)
	}
	if ed25519.Verify(key, e.message(e.Payload), e.Signature) {
		return nil
	}
	canonical, err := Canonical(e.Payload)
	switch {
	case errors.Is(err, ErrDuplicate):
		return e.refuse(Malformed, "the payload: %v", err)
	case err == nil && ed25519.Verify(key, e.message(canonical), e.Signature):
		return nil
	}
	return e.refuse(WrongSignature, "the signature is not that of the token's key over this request")
}

// message is what is signed.
func (e *Envelope) message(payload []byte) []byte {
	b := make([]byte, 0, len(payload)+len(e.Token)+64)
	b = append(append(b, `{"payload":`...), payload...)
	b = appendString(append(b, `,"security_token":`...), e.Token)
	b = strconv.AppendInt(append(b, `,"timestamp":`...), e.Time, 10)
	return append(b, '}')
}

// Sign returns the envelope of a request, which is signed as it is, without
// the space around it.
func Sign(key ed25519.PrivateKey, token string, request []byte, now time.Time) []byte {
	e := Envelope{Token: token, Payload: bytes.Trim(request, space), Time: now.Unix()}
	signature := base64.StdEncoding.EncodeToString(ed25519.Sign(key, e.message(e.Payload)))
	b := make([]byte, 0, len(e.Payload)+len(token)+256)
	b = appendString(append(b, `{"protocol":"`+SEAL+`","security_token":`...), token)
	b = append(b, `,"signature":"`+signature+`","timestamp":"`...)
	b = now.UTC().AppendFormat(b, time.RFC3339)
	b = append(append(b, `","payload":`...), e.Payload...)
	return append(b, '}')
}

// Overhead is by how much an envelope is larger than its payload, at most.
const Overhead = 2 << 10

// clip returns a text of a stranger for people to read.
func clip(s string) string {
	if len(s) > 200 {
		s = s[:200]
	}
	return strings.ToValidUTF8(s, "?")
}
