// Package attest makes the security tokens of a VM's programs and judges the
// envelopes that they sign (package seal).
//
// Who holds a token is known by the connection on which it was asked for:
// nothing that a program says of itself is believed. A token names a session,
// and the one key whose signatures count in it. A Gate keeps the sessions of
// one VM and every signature that it took, until that is too old to be taken
// once more; a call goes on when that is on the disk (log.go), so neither a
// crash nor a restart has an envelope count twice.
//
// The time of a session never goes back, whatever the host's clock does: a
// signature that was forgotten stays too old.
package attest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"hutch/fs"
	"hutch/mcpd/seal"
)

const (
	window = 30_000          // ms that an envelope may be older or newer than now
	kept   = window + 1_000  // ms after its timestamp for which a signature is kept
	sweep  = 5 * time.Second // how often those that are too old are dropped

	maxSeen     = 1 << 18 // signatures that are kept of a VM, some 4000 calls in a second
	maxSessions = 1 << 10

	attestEvery = 12 * time.Second // five in a minute, and as many at once
	attestBurst = 5
)

// Config says what a Gate stands on.
type Config struct {
	Key  *Key             // signs the tokens
	Path string           // of the file in which it keeps what it must know
	VM   func() string    // its name
	Now  func() time.Time // nil: time.Now
}

// A Gate judges the envelopes of one VM. Its methods may be called
// concurrently. A nil Gate attests nothing and takes no envelope.
type Gate struct {
	cfg     Config
	limiter *rate.Limiter

	mu       sync.Mutex // guards what follows
	id       string     // the VM's, which no other has; "": nothing is loaded
	sessions map[string]*session
	seen     int // signatures of all sessions
	swept    time.Time
	log      log
	closed   bool
}

// A session is what a token is good for.
type session struct {
	expires int64 // ms since 1970
	clock   int64 // the latest time at which it was looked at, ms
	revoked bool
	seen    map[nonce]int64 // signatures, and until when they are kept
}

// A nonce stands for a signature.
type nonce [16]byte

// New returns a Gate. It reads its file when it is first needed.
func New(cfg Config) *Gate {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Gate{cfg: cfg, limiter: rate.NewLimiter(rate.Every(attestEvery), attestBurst)}
}

var errClosed = fmt.Errorf("%w: the VM is gone", fs.ErrNotExist)

// load reads the file, once. What is damaged is as good as nothing: then every
// program has to be attested anew.
func (g *Gate) load() error {
	switch {
	case g.closed:
		return errClosed
	case g.id != "":
		return nil
	}
	text, err := os.ReadFile(g.cfg.Path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	g.read(text)
	return nil
}

// now returns the time of a session, which may be nil.
func (g *Gate) now(s *session) int64 {
	now := g.cfg.Now().UnixMilli()
	if s == nil {
		return now
	}
	s.clock = max(s.clock, now)
	return s.clock
}

// Check judges a message that is an envelope. It returns the payload, which
// counts if there is no error: a *seal.Refusal, or one of the host. Nothing may
// be done for it before Wait(ticket) has returned.
func (g *Gate) Check(data []byte) (payload []byte, ticket uint64, err error) {
	e, why := seal.Parse(data)
	if why != nil {
		return e.Payload, 0, why
	}
	if ticket, err = g.judge(e); err != nil {
		return e.Payload, 0, err
	}
	return e.Payload, ticket, nil
}

// judge makes the checks in the order that the protocols have them in.
func (g *Gate) judge(e *seal.Envelope) (uint64, error) {
	c, err := g.cfg.Key.open(e.Token)
	if err != nil {
		return 0, refusal(err, e.Protocol)
	}
	if err := g.known(e, c); err != nil {
		return 0, err
	}
	if why := e.Verify(c.key()); why != nil { // not under the lock, as it takes time
		return 0, why
	}
	return g.take(e, c.ID)
}

// known checks that the token is of this VM, and still good.
func (g *Gate) known(e *seal.Envelope, c *claims) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.load(); err != nil {
		return err
	}
	s := g.sessions[c.ID]
	switch {
	case g.now(s) >= c.Expiry.Time().UnixMilli():
		return seal.Refuse(e.Protocol, seal.Expired, "the security token has expired")
	case c.Subject != g.id:
		return seal.Refuse(e.Protocol, seal.Unknown, "the security token is not this VM's")
	}
	return s.alive(e.Protocol)
}

// alive checks that there is a session, which nobody has revoked.
func (s *session) alive(protocol string) error {
	switch {
	case s == nil:
		return seal.Refuse(protocol, seal.Unknown, "the security token is of no session here")
	case s.revoked:
		return seal.Refuse(protocol, seal.Revoked, "the session was revoked")
	}
	return nil
}

// take notes the signature of an envelope that is good, if it came in time and
// for the first time.
func (g *Gate) take(e *seal.Envelope, id string) (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sessions[id]
	if err := s.alive(e.Protocol); err != nil {
		return 0, err
	}
	now, stamp := g.now(s), e.Time*1000
	if now-stamp > window || stamp-now > window {
		return 0, seal.Refuse(e.Protocol, seal.Stale, "the timestamp is more than %d s from now", window/1000)
	}
	sum := sha256.Sum256(e.Signature)
	n := nonce(sum[:len(nonce{})])
	if _, again := s.seen[n]; again {
		return 0, seal.Refuse(e.Protocol, seal.Replay, "the envelope came before")
	}
	if g.sweep(); g.seen >= maxSeen {
		why := seal.Refuse(e.Protocol, seal.Full, "%d signed requests within a minute: no more can be told from replays", maxSeen)
		why.After = sweep
		return 0, why
	}
	s.seen[n] = stamp + kept
	g.seen++
	return g.log.seen(id, now, s.seen[n], n), nil
}

// sweep forgets what is too old, now and then.
func (g *Gate) sweep() {
	if time.Since(g.swept) < sweep {
		return
	}
	g.swept = time.Now()
	for id, s := range g.sessions {
		now := g.now(s)
		for n, until := range s.seen {
			if until < now {
				delete(s.seen, n)
				g.seen--
			}
		}
		if s.expires <= now {
			g.drop(id)
		}
	}
}

func (g *Gate) drop(id string) {
	g.seen -= len(g.sessions[id].seen)
	delete(g.sessions, id)
}

// Wait returns when all that was noted up to a ticket is on the disk.
func (g *Gate) Wait(ticket uint64) error { return g.commit(ticket) }

// Revoke ends the session id, or with "all" every one.
func (g *Gate) Revoke(id string) error {
	ticket, err := g.revoke(id)
	if err != nil {
		return err
	}
	return g.commit(ticket)
}

func (g *Gate) revoke(id string) (ticket uint64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.load(); err != nil {
		return 0, err
	}
	if s := g.sessions[id]; s == nil && id != "all" {
		return 0, fmt.Errorf("%w: no session %.64q", fs.ErrNotExist, id)
	}
	for name, s := range g.sessions {
		if id == "all" || id == name {
			s.revoked = true
			ticket = g.log.revoked(name)
		}
	}
	return ticket, nil
}

// Text returns a line for each session that is good: attested, its id, and when
// it expires.
func (g *Gate) Text() string {
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.load() != nil {
		return ""
	}
	var lines []string
	for id, s := range g.sessions {
		if !s.revoked && g.now(s) < s.expires {
			lines = append(lines, fmt.Sprintf("attested %s %s\n", id, stamp(s.expires)))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// stamp writes a time as the protocols do.
func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// Close lets go of the file. Nothing is attested or taken after it.
func (g *Gate) Close() error {
	g.log.writing.Lock()
	defer g.log.writing.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	return g.log.close()
}
