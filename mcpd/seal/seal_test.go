package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"
)

// testKey is the key of RFC 8032's first test.
func testKey(t testing.TB) ed25519.PrivateKey {
	seed, err := hex.DecodeString("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
	if err != nil {
		t.Fatal(err)
	}
	return ed25519.NewKeyFromSeed(seed)
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// envelope puts one together of what was signed elsewhere.
func envelope(protocol, token, signature, payload, stamp string) []byte {
	return []byte(`{"protocol":"` + protocol + `","security_token":"` + token + `","signature":"` + signature +
		`","payload":` + payload + `,"timestamp":"` + stamp + `"}`)
}

func check(data []byte, key ed25519.PublicKey) *Refusal {
	e, why := Parse(data)
	if why == nil {
		why = e.Verify(key)
	}
	return why
}

// TestVector has a request that Python and Node.js signed, canonical, in the
// order and with the space that another program sent it with.
func TestVector(t *testing.T) {
	const signature = "E4gBiRt4xIF/2edvy1eXUwDo0xgphIOy98Z20eRusLeaMS3WHOZSbSWUXe/yDsNr8IJvy2Rn8jkNH43R396DDA=="
	key := public(testKey(t))
	for _, payload := range []string{
		`{"id":1,"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"path":"/workspace/main.py"},"name":"fs.read"}}`,
		`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fs.read", "arguments": {"path": "\/workspace/m\u0061in.py"}}}`,
	} {
		for _, stamp := range []string{"2026-02-17T14:32:01.000Z", "2026-02-17T14:32:01.999Z", "2026-02-17T15:32:01+01:00"} {
			if why := check(envelope(SEAL, "TOKEN", signature, payload, stamp), key); why != nil {
				t.Errorf("%s %s: %v", payload, stamp, why)
			}
		}
		tampered := strings.Replace(payload, "fs.read", "fs.write", 1)
		if why := check(envelope(SEAL, "TOKEN", signature, tampered, "2026-02-17T14:32:01Z"), key); why == nil || why.Why != WrongSignature {
			t.Errorf("tampered: %v", why)
		}
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		`{ "b" : [ 1 , {"d":2,"c":null} ] , "a" : true }`:    `{"a":true,"b":[1,{"c":null,"d":2}]}`,
		`{"n":[1.0,1e16,1E+2,-0,12345678901234567890]}`:      `{"n":[1.0,1e16,1E+2,-0,12345678901234567890]}`,
		`{"s":"<a>&\u003c é \u00e9 \u2028 \/ \ud83d\ude00"}`: "{\"s\":\"<a>&< é é \u2028 / 😀\"}",
		`{"s":"\u0000\u0008\u000c\u001f\n\r\t\"\\\u007f"}`:   `{"s":"\u0000\b\f\u001f\n\r\t\"\\` + "\x7f\"}",
		"{\"\uff5e\":1,\"😀\":2,\"z\":3,\"\":4}":              "{\"\":4,\"z\":3,\"\uff5e\":1,\"😀\":2}",
		`[]`: `[]`, ` {} `: `{}`, `"x"`: `"x"`,
	} {
		if got, err := Canonical([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", in, got, err, want)
		}
	}
	for in, want := range map[string]error{
		`{"a":1,"a":1}`:                  ErrDuplicate,
		`{"x":[{"a":1,"\u0061":2}]}`:     ErrDuplicate,
		`["\ud800"]`:                     errSurrogate,
		`["\ud800\ud800"]`:               errSurrogate,
		`["\ud800x\udc00"]`:              errSurrogate,
		`{"\udc00":1}`:                   errSurrogate,
		strings.Repeat(" ", 1<<20) + "1": errLong,
	} {
		if got, err := Canonical([]byte(in)); !errors.Is(err, want) {
			t.Errorf("%.40s: %s %v", in, got, err)
		}
	}
	deep := strings.Repeat(`{"a":`, 100000) + "1" + strings.Repeat("}", 100000)
	if _, err := Canonical([]byte(deep)); err == nil {
		t.Error("a bomb has a canonical form")
	}
}

// TestPayloadsDiffer has pairs of requests of which one decoder or another
// makes the same: who signed one has not signed the other.
func TestPayloadsDiffer(t *testing.T) {
	key := testKey(t)
	for _, pair := range [][2]string{
		{`{"a":"\ud800"}`, `{"a":"\ud801"}`},
		{`{"a":"\ud800"}`, `{"a":"\ufffd"}`},
		{`{"a":1}`, `{"a":1.0}`},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`},
		{`{"a":1}`, `{"a":1,"a":1}`},
		{`{"a":1}`, `{"A":1}`},
		{`{"a":"x"}`, `{"a":"x\u0000"}`},
	} {
		signed := Sign(key, "T", []byte(pair[0]), time.Unix(1771338721, 0))
		if why := check(signed, public(key)); why != nil {
			t.Errorf("%s: %v", pair[0], why)
		}
		other := bytes.Replace(signed, []byte(pair[0]), []byte(pair[1]), 1)
		if why := check(other, public(key)); why == nil {
			t.Errorf("who signed %s signed %s", pair[0], pair[1])
		}
	}
}

func TestParse(t *testing.T) {
	good := string(Sign(testKey(t), "T", []byte(`{"id":1}`), time.Unix(1771338721, 0)))
	for _, c := range []struct {
		old, new string
		want     Why
	}{
		{`"seal/v1"`, `"seal/v2"`, Malformed},
		{`"protocol":"seal/v1",`, ``, Malformed},
		{`"protocol":`, `"protocol":"smcp/v1","protocol":`, Malformed},
		{`"protocol":`, `"Protocol":`, Malformed},
		{`"payload":{`, `"payload":[{`, Malformed},
		{`{"id":1}`, `"x"`, Malformed},
		{`{"id":1}`, `null`, Malformed},
		{`"security_token":"T"`, `"security_token":5`, Malformed},
		{`"security_token":"T"`, `"security_token":"` + strings.Repeat("T", maxToken+1) + `"`, Malformed},
		{`"2026-02-17T14:32:01Z"`, `1771338721`, Malformed},
		{`"2026-02-17T14:32:01Z"`, `"yesterday"`, Malformed},
		{`"signature":"`, `"signature":"A`, BadSignature},
		{`=="`, `"`, BadSignature},
		{`{"id":1}`, strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600), Malformed},
	} {
		changed := strings.Replace(good, c.old, c.new, 1)
		if why := check([]byte(changed), public(testKey(t))); changed == good || why == nil || why.Why != c.want {
			t.Errorf("%s for %s: %v", c.new, c.old, why)
		}
	}
	for text, want := range map[string]bool{
		good: true, " {\n \"payload\" : ": true, `{"timestamp":`: true, `{"jsonrpc":"2.0","protocol":"seal/v1"}`: false,
		`{"payloads":1}`: false, `{}`: false, `{"`: false, `[`: false, ``: false, `{"payload`: false,
	} {
		if Is([]byte(text)) != want {
			t.Errorf("%s is an envelope: %v", text, !want)
		}
	}
}

func TestKeys(t *testing.T) {
	want := public(testKey(t))
	der, err := x509.MarshalPKIXPublicKey(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
		"MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
		"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
		base64.RawURLEncoding.EncodeToString(der),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
	} {
		if got, err := ParseKey(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %x %v", text, got, err)
		}
	}
	for _, text := range []string{"", "AAAA", "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHUR", "!!", strings.Repeat("A", 88),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))} {
		if got, err := ParseKey(text); err == nil {
			t.Errorf("%q is the key %x", text, got)
		}
	}
}

func TestCodes(t *testing.T) {
	for _, c := range []struct {
		protocol string
		why      Why
		want     string
	}{
		{SEAL, Expired, `{"protocol":"seal/v1","code":1003,"name":"TOKEN_EXPIRED","reason":"expired","class":"fatal"}`},
		{SMCP, Expired, `{"protocol":"smcp/v1","code":1002,"name":"EXPIRED_TOKEN","reason":"expired","class":"fatal"}`},
		{SMCP, Replay, `{"protocol":"smcp/v1","code":1004,"name":"REPLAY_DETECTED","reason":"replay","class":"fatal"}`},
	} {
		if got := Refuse(c.protocol, c.why, "x").Data(); string(got) != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	for why := Unsigned; why <= TooOften; why++ {
		for _, protocol := range []string{SEAL, SMCP} {
			r := Refuse(protocol, why, "%s", strings.Repeat("é", 200))
			if r.After = time.Second; !json.Valid(r.Data()) || r.Reason() == "" || len(r.Text) > 200 {
				t.Errorf("%d %s: %s", why, protocol, r.Data())
			}
		}
	}
}

func TestSigner(t *testing.T) {
	s, err := NewSigner()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1771338721, 0)
	if s.Ready(now) || s.Accept([]byte(`{"security_token":"T"}`), now) == nil {
		t.Error("ready with nothing")
	}
	if err := s.Accept([]byte(`{"security_token":"T","expires_at":"2026-02-17T14:33:41Z"}`), now); err != nil {
		t.Fatal(err)
	}
	if !s.Ready(now.Add(89*time.Second)) || s.Ready(now.Add(90*time.Second)) {
		t.Error("it is renewed at another time")
	}
	key, err := ParseKey(rawString(t, s.Params(), "public_key"))
	if err != nil {
		t.Fatal(err)
	}
	signed := s.Sign([]byte(" {\"id\":1}\n"), now)
	if why := check(signed, key); why != nil || !Is(signed) || len(signed) > Overhead {
		t.Errorf("%s: %v", signed, why)
	}
	if s.Forget(); s.Ready(now) {
		t.Error("it remembers what it was to forget")
	}
}

// TestSignerAsks has a host that attests a key at the third time only.
func TestSignerAsks(t *testing.T) {
	s, err := NewSigner()
	if err != nil {
		t.Fatal(err)
	}
	later := []byte(`{"code":-32600,"message":"too often","data":{"reason":"rate","retry_after_ms":1}}`)
	good := []byte(`{"security_token":"T","expires_at":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`)
	n := 0
	ask := func(json.RawMessage) (json.RawMessage, json.RawMessage, error) {
		if n++; n < 3 {
			return nil, later, nil
		}
		return good, nil, nil
	}
	for range 2 {
		if err := s.Attest(t.Context(), ask); err != nil || n != 3 {
			t.Errorf("asked %d times: %v", n, err)
		}
	}
	s.Forget()
	err = s.Attest(t.Context(), func(json.RawMessage) (json.RawMessage, json.RawMessage, error) {
		return nil, []byte(`{"code":-32601,"message":"method not found"}`), nil
	})
	if err == nil || err.Error() != "the host does not attest the key: method not found" {
		t.Error(err)
	}
}

func rawString(t *testing.T, object []byte, name string) string {
	t.Helper()
	var m map[string]string
	if err := json.Unmarshal(object, &m); err != nil {
		t.Fatal(err)
	}
	return m[name]
}

// FuzzEnvelope changes envelopes: what verifies is, to any decoder, the request
// that was signed.
func FuzzEnvelope(f *testing.F) {
	key := testKey(f)
	request := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"é":[1.0,"\u2028"]}}}`)
	f.Add(Sign(key, "T", request, time.Unix(1771338721, 0)))
	f.Add([]byte(`{"payload":{},"protocol":"smcp/v1"}`))
	f.Add([]byte(`{"payload":`))
	want, err := Canonical(request)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		Is(in)
		e, why := Parse(in)
		if why != nil || e.Verify(public(key)) != nil {
			return
		}
		got, err := Canonical(e.Payload)
		if err != nil || !bytes.Equal(got, want) || e.Token != "T" || e.Time != 1771338721 {
			t.Fatalf("%s is taken for what was signed", in)
		}
	})
}

// FuzzCanonical has the canonical form be its own, and mean the same.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":1,"a":["\ud83d\ude00\n",1e400,{}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		first, err := Canonical(in)
		if err != nil {
			return
		}
		again, err := Canonical(first)
		if err != nil || !bytes.Equal(first, again) {
			t.Fatalf("%q became %q, then %q (%v)", in, first, again, err)
		}
		var a, b any
		if decode(in, &a) != nil || decode(first, &b) != nil {
			t.Fatalf("%q became %q", in, first)
		}
		x, _ := json.Marshal(a)
		if y, _ := json.Marshal(b); !bytes.Equal(x, y) {
			t.Fatalf("%q became %q", in, first)
		}
	})
}

func decode(in []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	return d.Decode(v)
}
