package attest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/time/rate"

	"hutch/mcpd/seal"
)

// A desk is a Gate for tests, with its clock, and a program that it attested.
type desk struct {
	*Gate
	t     *testing.T
	now   atomic.Int64 // ms
	key   ed25519.PrivateKey
	token string
	id    string // of the session
	n     int
}

const begin = 1771338721_000

func newDesk(t *testing.T, dir, name string) *desk {
	t.Helper()
	d := &desk{t: t}
	d.now.Store(begin)
	_, d.key, _ = ed25519.GenerateKey(nil)
	d.Gate = New(Config{
		Key: NewKey(filepath.Join(dir, "key")), Path: filepath.Join(dir, name),
		VM: func() string { return name }, Now: func() time.Time { return time.UnixMilli(d.now.Load()) },
	})
	t.Cleanup(func() { d.Gate.Close() })
	return d
}

// attested is one with a token.
func attested(t *testing.T) *desk {
	d := newDesk(t, t.TempDir(), "dev")
	d.attest()
	return d
}

func (d *desk) ask(r Request) (map[string]string, error) {
	d.t.Helper()
	d.limiter = rate.NewLimiter(rate.Inf, 1)
	result, err := d.Attest(r)
	if err != nil {
		return nil, err
	}
	var m map[string]string
	if err := json.Unmarshal(result, &m); err != nil {
		d.t.Fatalf("%s %v", result, err)
	}
	return m, nil
}

func (d *desk) attest() {
	d.t.Helper()
	m, err := d.ask(Request{Protocol: seal.SEAL, Params: params(d.key), Scope: "default"})
	if err != nil {
		d.t.Fatal(err)
	}
	d.token, d.id = m["security_token"], m["session_id"]
}

func params(key ed25519.PrivateKey) []byte {
	return []byte(`{"public_key":"` + base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)) + `"}`)
}

// request is one that was never made before, stamped so many ms from now.
func (d *desk) request(from int64) []byte {
	d.n++
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, d.n)
	return seal.Sign(d.key, d.token, []byte(text), time.UnixMilli(d.now.Load()+from))
}

// try has an envelope judged, and waited for.
func (d *desk) try(data []byte) error {
	_, ticket, err := d.Check(data)
	if err == nil {
		err = d.Wait(ticket)
	}
	return err
}

// again closes the Gate, and opens it as a new hutchd does.
func (d *desk) again() {
	d.t.Helper()
	if err := d.Close(); err != nil {
		d.t.Fatal(err)
	}
	d.Gate = New(d.cfg)
}

func (d *desk) takes(data []byte) {
	d.t.Helper()
	if err := d.try(data); err != nil {
		d.t.Errorf("refused: %v", err)
	}
}

func (d *desk) refuses(data []byte, why seal.Why) {
	d.t.Helper()
	err := d.try(data)
	var r *seal.Refusal
	if !errors.As(err, &r) || r.Why != why {
		d.t.Errorf("%v, want refusal %d", err, why)
	}
}

func TestTake(t *testing.T) {
	d := attested(t)
	data := d.request(0)
	payload, ticket, err := d.Check(data)
	if err != nil || d.Wait(ticket) != nil || string(payload) != `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` {
		t.Errorf("%s %v", payload, err)
	}
	d.refuses(data, seal.Replay)
	for range 20 {
		d.takes(d.request(0)) // a token is for more than one
	}
	smcp := bytes.Replace(data, []byte(seal.SEAL), []byte(seal.SMCP), 1)
	err = d.try(smcp)
	var r *seal.Refusal
	if !errors.As(err, &r) || !strings.Contains(string(r.Data()), `"code":1004,"name":"REPLAY_DETECTED"`) {
		t.Errorf("by its other name: %v", err)
	}
}

func TestRestart(t *testing.T) {
	d := attested(t)
	first, edge := d.request(0), d.request(window)
	d.takes(first)
	d.takes(edge)
	d.again()
	d.refuses(first, seal.Replay)
	d.refuses(edge, seal.Replay)
	d.takes(d.request(0))
	d.again()
	d.refuses(first, seal.Replay)
	if m, _ := filepath.Glob(filepath.Join(filepath.Dir(d.cfg.Path), "*")); len(m) != 2 {
		t.Errorf("files: %v", m)
	}
}

// TestEdges has envelopes of the two ends of the window until they are stale.
func TestEdges(t *testing.T) {
	d := attested(t)
	d.refuses(d.request(window+1000), seal.Stale)
	d.refuses(d.request(-window-1000), seal.Stale)
	d.takes(d.request(-window))
	edge := d.request(window)
	d.takes(edge)
	for at := int64(0); at <= 2*window+5000; at += 1000 {
		d.now.Store(begin + at)
		d.swept = time.Time{}
		want := seal.Replay
		if at > 2*window {
			want = seal.Stale
		}
		d.refuses(edge, want)
	}
	d.swept = time.Time{}
	d.takes(d.request(0))
	if d.seen != 1 {
		t.Errorf("%d signatures are kept of 1", d.seen)
	}
}

// TestClockBack has the host's clock put back by an hour, when what came at
// that time was forgotten.
func TestClockBack(t *testing.T) {
	d := attested(t)
	old := d.request(0)
	d.takes(old)
	d.now.Add(10 * window)
	d.swept = time.Time{}
	d.takes(d.request(0))
	if d.seen != 1 {
		t.Fatalf("%d signatures are kept of 1", d.seen)
	}
	d.now.Store(begin)
	d.refuses(old, seal.Stale)
	d.again()
	d.refuses(old, seal.Stale)
	d.refuses(d.request(0), seal.Stale) // until it is attested anew
	d.attest()
	d.takes(d.request(0))
	d.now.Add(-1000 * window)
	d.attest()
	d.takes(d.request(0))
}

func TestExpiry(t *testing.T) {
	d := attested(t)
	d.now.Store(begin + 3600_000 - 1)
	d.takes(d.request(0))
	d.now.Store(begin + 3600_000)
	d.refuses(d.request(0), seal.Expired)
	d.now.Store(begin + 3000_000) // a token that has expired stays so
	d.refuses(d.request(0), seal.Expired)
	for _, life := range []time.Duration{0, time.Minute} {
		m, err := d.ask(Request{Params: params(d.key), Life: life})
		expires, perr := time.Parse(time.RFC3339, m["expires_at"])
		if life == 0 {
			life = Usual
		}
		if err != nil || perr != nil || expires.UnixMilli() != d.now.Load()+life.Milliseconds() {
			t.Errorf("%v: %v %v", life, m, err)
		}
	}
	if m, err := d.ask(Request{Params: params(d.key), Life: 1000 * time.Hour}); err != nil || m["expires_at"] != stamp(d.now.Load()+Longest.Milliseconds()) {
		t.Errorf("%v %v", m, err)
	}
}

func TestRevoke(t *testing.T) {
	d := attested(t)
	other := d.token
	d.attest()
	if err := d.Revoke("nobody"); err == nil {
		t.Error("nobody is revoked")
	}
	if err := d.Revoke(d.id); err != nil {
		t.Fatal(err)
	}
	d.refuses(d.request(0), seal.Revoked)
	d.again()
	d.refuses(d.request(0), seal.Revoked)
	d.token = other
	d.takes(d.request(0))
	if err := d.Revoke("all"); err != nil || strings.Contains(d.Text(), "attested") {
		t.Errorf("%v %s", err, d.Text())
	}
	d.refuses(d.request(0), seal.Revoked)
	d.attest()
	d.takes(d.request(0))
	if text := d.Text(); text != "attested "+d.id+" 2026-02-17T15:32:01.000Z\n" {
		t.Error(text)
	}
}

// TestOthers has tokens and keys of others: another VM of the host, another
// host, the same key under another token, a copy of a VM.
func TestOthers(t *testing.T) {
	d := attested(t)
	neighbour := newDesk(t, filepath.Dir(d.cfg.Path), "next")
	neighbour.attest()
	d.token, d.key = neighbour.token, neighbour.key
	d.refuses(d.request(0), seal.Unknown)

	stranger := attested(t)
	d.token, d.key = stranger.token, stranger.key
	d.refuses(d.request(0), seal.BadToken)

	d.attest()
	signed := d.request(0)
	token := d.token
	d.attest() // with the same key
	d.refuses(bytes.Replace(signed, []byte(token), []byte(d.token), 1), seal.WrongSignature)
	_, d.key, _ = ed25519.GenerateKey(nil)
	d.refuses(d.request(0), seal.WrongSignature)
	d.takes(signed)

	copied := newDesk(t, filepath.Dir(d.cfg.Path), "copy")
	copied.token, copied.key = neighbour.token, neighbour.key
	copied.refuses(copied.request(0), seal.Unknown)
}

// forge makes a token that says what the claims say, signed as is said.
func forge(t *testing.T, signing jose.SigningKey, c any) string {
	t.Helper()
	signer, err := jose.NewSigner(signing, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(c).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestForged(t *testing.T) {
	d := attested(t)
	good := d.token
	c, err := d.cfg.Key.open(good)
	if err != nil {
		t.Fatal(err)
	}
	host, err := d.cfg.Key.get()
	if err != nil {
		t.Fatal(err)
	}
	part := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	elsewhere, timeless, keyless := *c, *c, *c
	elsewhere.Audience = jwt.Audience{"other"}
	timeless.Expiry = nil
	for name, token := range map[string]string{
		"empty": "", "no token": "a.b.c", "none": none + "." + part[1] + ".", "unsigned": part[0] + "." + part[1] + ".",
		"its own key": forge(t, jose.SigningKey{Algorithm: jose.EdDSA, Key: d.key}, c),
		"HMAC by the public key": forge(t, jose.SigningKey{Algorithm: jose.HS256, Key: []byte(host.Public().(ed25519.PublicKey))},
			map[string]any{"sub": c.Subject}),
		"another audience": forge(t, jose.SigningKey{Algorithm: jose.EdDSA, Key: host}, elsewhere),
		"no end":           forge(t, jose.SigningKey{Algorithm: jose.EdDSA, Key: host}, timeless),
		"no key":           forge(t, jose.SigningKey{Algorithm: jose.EdDSA, Key: host}, keyless.Claims),
	} {
		d.token = token
		var r *seal.Refusal
		if err := d.try(d.request(0)); !errors.As(err, &r) || r.Why != seal.BadToken {
			t.Errorf("%s: %v", name, err)
		}
	}
	d.token = good
	d.takes(d.request(0))
}

func TestClaims(t *testing.T) {
	d := attested(t)
	c, err := d.cfg.Key.open(d.token)
	if err != nil || c.Subject != d.Gate.id || c.Scope != "default" || c.Workload != "hutch://vm/dev" || c.ID != d.id ||
		!c.key().Equal(d.key.Public()) || c.Expiry.Time().Sub(c.IssuedAt.Time()) != time.Hour {
		t.Errorf("%+v %v", c, err)
	}
	info, err := os.Stat(d.cfg.Key.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v %v", info, err)
	}
}

func TestAsk(t *testing.T) {
	d := newDesk(t, t.TempDir(), "dev")
	key := string(params(d.key)[:len(params(d.key))-1])
	for text, want := range map[string]seal.Why{
		`{}`: seal.BadKey, `{"public_key":5}`: seal.BadKey, `{"public_key":"AAAA"}`: seal.BadKey,
		`{"public_key":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`: seal.BadKey, `{"public_key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`: seal.BadKey,
		key + `,"security_context":"root"}`: seal.WrongScope, key + `,"requested_scope":"root"}`: seal.WrongScope,
	} {
		var r *seal.Refusal
		if _, err := d.ask(Request{Params: []byte(text), Scope: "default"}); !errors.As(err, &r) || r.Why != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	m, err := d.ask(Request{Params: []byte(key + `,"security_context":"default","workload_id":"docker://other"}`), Scope: "default"})
	if err != nil || m["status"] != "success" {
		t.Errorf("%v %v", m, err)
	}
	c, err := d.cfg.Key.open(m["security_token"])
	if err != nil || c.Workload != "hutch://vm/dev" {
		t.Errorf("%+v %v", c, err)
	}
}

func TestTooOften(t *testing.T) {
	d := newDesk(t, t.TempDir(), "dev")
	for i := range attestBurst + 1 {
		_, err := d.Attest(Request{Params: params(d.key)})
		var r *seal.Refusal
		if i < attestBurst && err != nil {
			t.Error(err)
		}
		if i == attestBurst && (!errors.As(err, &r) || r.Why != seal.TooOften || r.After <= 0 || r.After > attestEvery) {
			t.Errorf("%+v", err)
		}
	}
	for range maxSessions {
		d.attest()
	}
	if len(d.sessions) != maxSessions {
		t.Errorf("%d sessions", len(d.sessions))
	}
}

// TestDamaged has files as a crash or a disk leaves them. None of them makes an
// envelope good once more.
func TestDamaged(t *testing.T) {
	d := attested(t)
	old := d.request(0)
	d.takes(old)
	text, err := os.ReadFile(d.cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"torn":     append(bytes.Clone(text), "seen "+d.id+" 17"...),
		"zeros":    append(bytes.Clone(text), 0, 0, '\n'),
		"empty":    {},
		"headless": text[bytes.IndexByte(text, '\n')+1:],
		"garbage":  []byte("\x00\xff\n"),
		"numbers":  bytes.Replace(text, []byte("seen "+d.id), []byte("seen "+d.id+" x"), 1),
	} {
		d.Close()
		if err := os.WriteFile(d.cfg.Path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		d.again()
		if d.try(old) == nil {
			t.Errorf("%s: it came again", name)
		}
		if known := d.try(d.request(0)) == nil; known != (name == "torn") {
			t.Errorf("%s: the session is known: %v", name, known)
		}
	}
	os.Remove(d.cfg.Path)
	d.again()
	d.refuses(old, seal.Unknown)
	d.attest()
	d.takes(d.request(0))
}

// TestUnwritten has a folder in which nothing can be written for a while.
func TestUnwritten(t *testing.T) {
	d := attested(t)
	d.takes(d.request(0))
	good := d.cfg.Path
	d.log.close()
	d.cfg.Path = filepath.Join(filepath.Dir(good), "no", "such")
	old := d.request(0)
	var r *seal.Refusal
	if err := d.try(old); err == nil || errors.As(err, &r) {
		t.Errorf("not written: %v", err)
	}
	d.cfg.Path = good
	d.refuses(old, seal.Replay)
	d.takes(d.request(0))
	d.again()
	d.refuses(old, seal.Replay)
}

// TestFlood has more signatures than are kept, and a file that stays in bounds.
func TestFlood(t *testing.T) {
	d := attested(t)
	for i := range 1000 {
		if i%50 == 0 {
			d.now.Add(window)
			d.swept = time.Time{}
		}
		if i%100 == 0 {
			d.attest()
		}
		d.takes(d.request(0))
	}
	if info, err := os.Stat(d.cfg.Path); err != nil || info.Size() > 2*least || d.seen > 200 {
		t.Errorf("%v %v, %d kept", info.Size(), err, d.seen)
	}
	d.seen = maxSeen
	d.refuses(d.request(0), seal.Full)
	d.seen = 0
}

// TestMany has many at once, of each of which one is taken.
func TestMany(t *testing.T) {
	d := attested(t)
	var all [][]byte
	for range 50 {
		all = append(all, d.request(0))
	}
	var taken atomic.Int64
	var at sync.WaitGroup
	for range 8 {
		at.Go(func() {
			for _, data := range all {
				if d.try(data) == nil {
					taken.Add(1)
				}
			}
			d.Text()
		})
	}
	at.Wait()
	if taken.Load() != 50 {
		t.Errorf("%d of 50 were taken", taken.Load())
	}
	d.Close()
	if d.try(d.request(0)) == nil {
		t.Error("taken by one that is closed")
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("vm A\nsession s 1771342321000 1771338721000\nseen s 1 2 00112233445566778899aabbccddeeff\nrevoke s\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		g := New(Config{VM: func() string { return "" }})
		g.read(text)
		if g.id == "" {
			t.Fatal("no id")
		}
		id := g.id
		first := g.text()
		g.read(first)
		if g.id != id || len(g.text()) != len(first) {
			t.Fatalf("%q became %q", first, g.text())
		}
	})
}
