package seal

import (
	"encoding/json"
	"fmt"
	"time"

	"hutch/aggd/rawjson"
)

// Why says why an envelope, or an attestation, is refused.
type Why int

const (
	Unsigned       Why = iota // a request that should have come in an envelope
	Malformed                 // the envelope
	BadSignature              // it is no signature at all
	WrongSignature            // it is another's, or of something else
	BadToken                  // not one of this host's
	Expired                   // the token is too old
	Unknown                   // a session of nobody here: another VM's, or forgotten
	Revoked                   // the session
	Stale                     // not of now
	Replay                    // it came before
	Full                      // too many came lately to remember another
	BadKey                    // what was to be attested is no key
	WrongScope                // asked for another security context than the VM's
	TooOften                  // attested
)

// A code is a number and a name that a protocol has for a refusal.
type code struct {
	number int
	name   string
}

// codes are the words for refusals, those that every protocol shares in reason.
// SEAL has none for replays: it says that the signature does not count.
var codes = [...]struct {
	reason     string
	smcp, seal code
}{
	Unsigned:       {"unsigned", code{1000, "INVALID_ENVELOPE"}, code{1000, "MALFORMED_ENVELOPE"}},
	Malformed:      {"malformed", code{1000, "INVALID_ENVELOPE"}, code{1000, "MALFORMED_ENVELOPE"}},
	BadSignature:   {"signature", code{1001, "INVALID_SIGNATURE"}, code{1001, "INVALID_SIGNATURE"}},
	WrongSignature: {"signature", code{1001, "INVALID_SIGNATURE"}, code{1002, "SIGNATURE_VERIFICATION_FAILED"}},
	BadToken:       {"token", code{1003, "INVALID_TOKEN"}, code{1004, "TOKEN_VERIFICATION_FAILED"}},
	Expired:        {"expired", code{1002, "EXPIRED_TOKEN"}, code{1003, "TOKEN_EXPIRED"}},
	Unknown:        {"session", code{1005, "UNKNOWN_SESSION"}, code{1005, "SESSION_NOT_FOUND"}},
	Revoked:        {"revoked", code{1005, "UNKNOWN_SESSION"}, code{1006, "SESSION_INACTIVE"}},
	Stale:          {"stale", code{1004, "REPLAY_DETECTED"}, code{1002, "SIGNATURE_VERIFICATION_FAILED"}},
	Replay:         {"replay", code{1004, "REPLAY_DETECTED"}, code{1002, "SIGNATURE_VERIFICATION_FAILED"}},
	Full:           {"rate", code{2005, "RATE_LIMIT_EXCEEDED"}, code{2005, "RATE_LIMIT"}},
	BadKey:         {"key", code{3002, "WORKLOAD_VERIFICATION_FAILED"}, code{3002, "ATTESTATION_FAILED"}},
	WrongScope:     {"scope", code{3001, "SCOPE_NOT_FOUND"}, code{3001, "SCOPE_NOT_FOUND"}},
	TooOften:       {"rate", code{2005, "RATE_LIMIT_EXCEEDED"}, code{2005, "RATE_LIMIT"}},
}

// A Refusal says why an envelope or an attestation is not taken.
type Refusal struct {
	Why      Why
	Protocol string
	Text     string
	After    time.Duration // of TooOften and Full: when to try again
}

// Refuse returns a Refusal in the words of a protocol.
func Refuse(protocol string, why Why, format string, args ...any) *Refusal {
	return &Refusal{Why: why, Protocol: protocol, Text: clip(fmt.Sprintf(format, args...))}
}

func (e *Envelope) refuse(why Why, format string, args ...any) *Refusal {
	return Refuse(e.Protocol, why, format, args...)
}

func (r *Refusal) Error() string { return r.Text }

// Reason is the word for the refusal that does not depend on the protocol.
func (r *Refusal) Reason() string { return codes[r.Why].reason }

// Data is what the error object of JSON-RPC has as its data. Its class says
// whether the model can do something about it, as package policy has it.
func (r *Refusal) Data() json.RawMessage {
	c := codes[r.Why].seal
	if r.Protocol == SMCP {
		c = codes[r.Why].smcp
	}
	b := fmt.Appendf(nil, `{"protocol":%q,"code":%d,"name":%q,"reason":%q`, r.Protocol, c.number, c.name, r.Reason())
	if r.After > 0 {
		return fmt.Appendf(b, `,"retry_after_ms":%d,"class":"recoverable"}`, r.After.Milliseconds())
	}
	return append(b, `,"class":"fatal"}`...)
}

// Renew says whether an error object tells that the token is of no use any
// more, and another has to be asked for.
func Renew(object []byte) bool {
	switch rawjson.GetString(object, "data", "reason") {
	case "token", "expired", "session", "revoked", "stale":
		return true
	}
	return false
}
