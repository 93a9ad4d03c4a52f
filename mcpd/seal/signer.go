package seal

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"hutch/aggd/rawjson"
)

// The methods by which a key is attested.
const (
	Attest     = "seal/attest"
	AttestSMCP = "smcp/attest"
)

// early is the part of a token's time before whose end another is asked for.
const early = 10

// A Signer signs requests, with a key that nobody else has and that is gone
// with it. Its methods may be called concurrently.
type Signer struct {
	key    ed25519.PrivateKey
	public string

	mu    sync.Mutex // guards what follows
	token string     // "": there is none
	until time.Time  // for which it is used
}

// NewSigner makes a key.
func NewSigner() (*Signer, error) {
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return &Signer{key: key, public: base64.StdEncoding.EncodeToString(public)}, nil
}

// Params are those of the request Attest.
func (s *Signer) Params() json.RawMessage {
	return json.RawMessage(`{"public_key":"` + s.public + `"}`)
}

// Attest has the key attested, unless there is a token already: ask makes the
// request Attest, and returns its result or its error object. Where the host
// says that too many ask, it asks again later.
func (s *Signer) Attest(ctx context.Context, ask func(params json.RawMessage) (result, object json.RawMessage, err error)) error {
	for !s.Ready(time.Now()) {
		result, object, err := ask(s.Params())
		if err != nil {
			return err
		}
		if object == nil {
			return s.Accept(result, time.Now())
		}
		after, err := strconv.Atoi(string(rawjson.Get(object, "data", "retry_after_ms")))
		if err != nil {
			return fmt.Errorf("the host does not attest the key: %s", rawjson.GetString(object, "message"))
		}
		select {
		case <-time.After(time.Duration(after) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Accept takes the result of the request Attest.
func (s *Signer) Accept(result []byte, now time.Time) error {
	token := rawjson.GetString(result, "security_token")
	expires, err := time.Parse(time.RFC3339, rawjson.GetString(result, "expires_at"))
	if err != nil || token == "" {
		return errors.New("the host attested nothing")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.until = token, expires.Add(-expires.Sub(now)/early)
	return nil
}

// Ready says whether there is a token to sign with.
func (s *Signer) Ready(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token != "" && now.Before(s.until)
}

// Forget drops the token: the host does not know it.
func (s *Signer) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = ""
}

// Sign returns a request in its envelope.
func (s *Signer) Sign(request []byte, now time.Time) []byte {
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	return Sign(s.key, token, request, now)
}
