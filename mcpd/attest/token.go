package attest

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"hutch/aggd/rawjson"
	"hutch/mcpd/seal"
)

// What the tokens say of who made them, and for whom.
const (
	issuer   = "hutch"
	audience = "hutch/mcp"
)

// The time for which a token is good: Usual where nobody says.
const (
	Usual   = time.Hour
	Longest = 24 * time.Hour
)

// claims are what a token says. Its subject is the VM, and its id the session.
type claims struct {
	jwt.Claims
	Scope    string `json:"scp"`
	Workload string `json:"wid"`
	Confirm  struct {
		Key jose.JSONWebKey `json:"jwk"`
	} `json:"cnf"` // the key whose signatures count
}

func (c *claims) key() ed25519.PublicKey {
	key, _ := c.Confirm.Key.Key.(ed25519.PublicKey)
	return key
}

// A Request is what a guest asks to have attested, on a connection of its VM.
type Request struct {
	Protocol string
	Params   []byte        // public_key, and what the guest says of itself
	Scope    string        // the VM's security context: its profile
	Life     time.Duration // of the token; 0: Usual
}

// Attest makes a token for a key. Its error is a *seal.Refusal, or one of the
// host.
func (g *Gate) Attest(r Request) (json.RawMessage, error) {
	if wait := g.limiter.Reserve(); wait.Delay() > 0 {
		why := seal.Refuse(r.Protocol, seal.TooOften, "too many keys are attested: five in a minute may be")
		why.After = wait.Delay()
		wait.Cancel()
		return nil, why
	}
	key, err := r.key()
	if err != nil {
		return nil, err
	}
	c, ticket, err := g.begin(r, key)
	if err != nil {
		return nil, err
	}
	token, err := g.cfg.Key.seal(c)
	if err != nil {
		return nil, err
	}
	if err := g.commit(ticket); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{
		"status": "success", "security_token": token, "session_id": c.ID, "expires_at": stamp(c.Expiry.Time().UnixMilli()),
	})
}

// key returns the key to be attested. A security context that is asked for has
// to be the one that the VM is in; what else the guest says means nothing.
func (r *Request) key() (ed25519.PublicKey, error) {
	text := ""
	for _, name := range []string{"public_key", "public_key_pem", "agent_public_key"} {
		if text == "" {
			text = rawjson.GetString(r.Params, name)
		}
	}
	key, err := seal.ParseKey(text)
	if err != nil {
		return nil, seal.Refuse(r.Protocol, seal.BadKey, "%v", err)
	}
	if _, err := (&jose.JSONWebKey{Key: key}).MarshalJSON(); err != nil { // as of low order
		return nil, seal.Refuse(r.Protocol, seal.BadKey, "the public key is none that signs for one alone: make another")
	}
	for _, name := range []string{"security_context", "requested_scope"} {
		if asked := rawjson.GetString(r.Params, name); asked != "" && asked != r.Scope {
			return nil, seal.Refuse(r.Protocol, seal.WrongScope, "the security context of this VM is %.64q, not %.64q", r.Scope, asked)
		}
	}
	return key, nil
}

// begin begins a session.
func (g *Gate) begin(r Request, key ed25519.PublicKey) (*claims, uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.load(); err != nil {
		return nil, 0, err
	}
	g.sweep()
	for len(g.sessions) >= maxSessions {
		g.drop(g.oldest())
	}
	life := r.Life
	if life == 0 {
		life = Usual
	}
	now := g.cfg.Now().Truncate(time.Second) // as a token tells it
	expires := now.Add(min(life, Longest))
	c := &claims{
		Claims: jwt.Claims{
			Issuer: issuer, Audience: jwt.Audience{audience}, Subject: g.id, ID: newID(),
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(expires),
		},
		Scope: r.Scope, Workload: "hutch://vm/" + g.cfg.VM(),
	}
	c.Confirm.Key = jose.JSONWebKey{Key: key}
	s := &session{expires: expires.UnixMilli(), clock: now.UnixMilli(), seen: make(map[nonce]int64)}
	g.sessions[c.ID] = s
	return c, g.log.began(c.ID, s), nil
}

// oldest returns the session that expires first.
func (g *Gate) oldest() (oldest string) {
	for id, s := range g.sessions {
		if oldest == "" || s.expires < g.sessions[oldest].expires {
			oldest = id
		}
	}
	return oldest
}

// refusal gives a refusal of a token the words of the protocol.
func refusal(err error, protocol string) error {
	var why *seal.Refusal
	if errors.As(err, &why) {
		why.Protocol = protocol
	}
	return err
}
