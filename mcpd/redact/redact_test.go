package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"hutch/aggd/rawjson"
)

func TestRedact(t *testing.T) {
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"
	for _, tt := range []struct{ in, want string }{
		{`{"name":"x","n":12345678901234567890}`, `{"name":"x","n":12345678901234567890}`},
		{`{"password":"hunter2","user":"bob"}`, `{"password":"[redacted]","user":"bob"}`},
		{`{"Password" : "hun\"ter2" ,"user":"bob"}`, `{"Password" : "[redacted]" ,"user":"bob"}`},
		{`{"password":"ends with \\","user":"bob"}`, `{"password":"[redacted]","user":"bob"}`},
		{`{"a":{"b":[{"client_secret":"s3cr3t"}]}}`, `{"a":{"b":[{"client_secret":"[redacted]"}]}}`},
		{`{"apiKey":"abc","X-Api-Key":"def"}`, `{"apiKey":"[redacted]","X-Api-Key":"[redacted]"}`},
		{`{"PWD":"/workspace","OLDPWD":"/"} PWD=/a/b`, `{"PWD":"/workspace","OLDPWD":"/"} PWD=/a/b`},
		{`{"PWD":"hunter2","pwd":"/x"} PWD=hunter2`, `{"PWD":"[redacted]","pwd":"[redacted]"} PWD=[redacted]`},
		{`{"text":"{\"PWD\":\"/workspace\"}"}`, `{"text":"{\"PWD\":\"/workspace\"}"}`},
		{`{"accessToken":"abc"}`, `{"accessToken":"[redacted]"}`},
		{`{"password":12345,"user":1}`, `{"password":"[redacted]","user":1}`},
		{`{"max_tokens":100,"token":null}`, `{"max_tokens":100,"token":null}`},
		{`{"_meta":{"progressToken":"p-1"}}`, `{"_meta":{"progressToken":"p-1"}}`},
		{`{"credentials":{"user":"bob","key":"}x"},"a":1}`, `{"credentials":"[redacted]","a":1}`},
		{`{"cookies":["a=b","c=d"],"tokens":[]}`, `{"cookies":"[redacted]","tokens":[]}`},
		{`{"text":"{\"password\":\"hunter2\",\"user\":\"bob\"}"}`, `{"text":"{\"password\":\"[redacted]\",\"user\":\"bob\"}"}`},
		{`{"t":"{\"t\":\"{\\\"token\\\":\\\"a\\\\\\\"b\\\",\\\"u\\\":1}\"}"}`, `{"t":"{\"t\":\"{\\\"token\\\":\\\"[redacted]\\\",\\\"u\\\":1}\"}"}`},
		{`{"headers":{"Authorization":"Bearer abcdef","Cookie":"a=b; c=d"}}`, `{"headers":{"Authorization":"[redacted]","Cookie":"[redacted]"}}`},
		{`{"name":"Authorization","value":"Basic dXNlcjpwYXNz"}`, `{"name":"Authorization","value":"[redacted]"}`},
		{`{"name": "Cookie", "value": "a=b"}`, `{"name": "Cookie", "value": "[redacted]"}`},
		{`[["Authorization","xyz"],["Accept","*/*"]]`, `[["Authorization","[redacted]"],["Accept","*/*"]]`},
		{`{"required":["token","path"]}`, `{"required":["token","path"]}`},
		{`{"args":["--token","abc","-v"]}`, `{"args":["--token","[redacted]","-v"]}`},
		{"login --password hunter2 --user bob", "login --password [redacted] --user bob"},
		{"curl -H 'Authorization: Basic dXNlcjpwYXNz' http://x/", "curl -H 'Authorization: [redacted]' http://x/"},
		{`{"cmd":"curl -H \"X-Api-Key: abc\" http://x/"}`, `{"cmd":"curl -H \"X-Api-Key: [redacted]\" http://x/"}`},
		{"GET / HTTP/1.1\r\nCookie: a=b; c=d\r\nHost: x", "GET / HTTP/1.1\r\nCookie: [redacted]\r\nHost: x"},
		{`{"h":"Cookie: a=b; c=d\r\nHost: x"}`, `{"h":"Cookie: [redacted]\r\nHost: x"}`},
		{"the header is Bearer abcdefghi.", "the header is Bearer [redacted]"},
		{`{"h":"Basic dXNlcjpwYXNz"}`, `{"h":"Basic [redacted]"}`},
		{"a basic example", "a basic example"},
		{"http://x/?token=abc&user=bob", "http://x/?token=[redacted]&user=bob"},
		{"PASSWORD=a&b;c,d next", "PASSWORD=[redacted] next"},
		{"if token == 'abc' {", "if token == '[redacted]' {"},
		{"AWS_SECRET_ACCESS_KEY=abc/def+x", "AWS_SECRET_ACCESS_KEY=[redacted]"},
		{"password: hunter2\nuser: bob", "password: [redacted]\nuser: bob"},
		{"<password>hunter2</password>", "<password>[redacted]</password>"},
		{"postgres://bob:hunter2@db/x and http://x:80/@y", "postgres://bob:[redacted]@db/x and http://x:80/@y"},
		{"key sk-abcdefghijklmnop1234 sk-learn risk-management-of-keys", "key [redacted] sk-learn risk-management-of-keys"},
		{"ghp_0123456789abcdefABCDEF github_pat_0123456789_abc", "[redacted] [redacted]"},
		{"xoxb-123456789012-abc glpat-abcdefghijkl AIzaSyA0123456789abcdefghij", "[redacted] [redacted] [redacted]"},
		{"AKIAIOSFODNN7EXAMPLE AKIAiosfodnn7example", "[redacted] AKIAiosfodnn7example"},
		{"is " + jwt + " ok", "is [redacted] ok"},
		{"cursor eyJwYWdlIjoxfQ next", "cursor eyJwYWdlIjoxfQ next"},
		{`{"t":"see:\nghp_0123456789abcdef\nbye"}`, `{"t":"see:\n[redacted]\nbye"}`},
		{`{"t":"a\u0022ghp_0123456789abcdef"}`, `{"t":"a\u0022[redacted]"}`},
		{"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nmore", "[redacted]\nmore"},
		{"-----BEGIN CERTIFICATE-----\nabc", "-----BEGIN CERTIFICATE-----\nabc"},
		{`{"k":"-----BEGIN PRIVATE KEY-----\nabc","x":1}`, `{"k":"[redacted]","x":1}`},
		{"password: don't-tell me", "password: [redacted] me"},
		{`{"a":"token=","b":"v"}`, `{"a":"token=","b":"v"}`},
		{`{"a":"Authorization: \r\n","b":"v"}`, `{"a":"Authorization: \r\n","b":"v"}`},
		{`{"password":"unterminated`, `{"password":"[redacted]`},
		{`{"password":`, `{"password":`},
		{`{"password":""}`, `{"password":""}`},
		{"password", "password"},
		{"", ""},

		// What is said of a thing that has such a name is no secret.
		{"open /workspace/secret: is a directory", "open /workspace/secret: is a directory"},
		{`{"error":"open token: no such file or directory"}`, `{"error":"open token: no such file or directory"}`},
		{`the path "secret: is" is outside`, `the path "secret: is" is outside`},
		{`/workspace/../etc/passwd: ".." in a path`, `/workspace/../etc/passwd: ".." in a path`},
		{"../token: .. is not allowed", "../token: .. is not allowed"},
		{"secret: permission denied; token: expired.", "secret: permission denied; token: expired."},
		{`{"password":"***"}`, `{"password":"***"}`},
		{"password: admin", "password: [redacted]"},
		{"password: admin user: bob", "password: [redacted] user: bob"},
		{"password: swordfish and so on", "password: [redacted] and so on"},
		{"password: is9 a number", "password: [redacted] a number"},
		{"password: expired2", "password: [redacted]"},
		{"password: no.such.file", "password: [redacted]"},
		{"token=the next word", "token=[redacted] next word"},
		{"Authorization: token abcdefgh", "Authorization: [redacted]"},
		{"--password open sesame", "--password [redacted] sesame"},

		// Nor what is said of a flag.
		{"pass the token with the --access-token flag or set TOKEN", "pass the token with the --access-token flag or set TOKEN"},
		{"--token flagship or --token or2 is --token flag", "--token [redacted] or --token [redacted] is --token [redacted]"},
		{"--password flag --user bob", "--password [redacted] --user bob"},
	} {
		got := new(Redactor).Redact(tt.in)
		if got != tt.want {
			t.Errorf("Redact(%s)\n got %s\nwant %s", tt.in, got, tt.want)
		}
		if json.Valid([]byte(tt.in)) && !json.Valid([]byte(got)) {
			t.Errorf("Redact(%s) is no longer JSON: %s", tt.in, got)
		}
	}
}

func TestSecretValues(t *testing.T) {
	var r Redactor
	r.Add("s3cr3t/with\"quotes", "short", "über-geheim", "abcdefgh", "defghijk", "[redac")
	for _, tt := range []struct{ in, want string }{
		{`say s3cr3t/with"quotes now`, `say [redacted] now`},
		{`{"a":"s3cr3t/with\"quotes"}`, `{"a":"[redacted]"}`},
		{`{"a":"s3cr3t\/with\"quotes"}`, `{"a":"[redacted]"}`},
		{`{"a":"{\"b\":\"s3cr3t/with\\\"quotes\"}"}`, `{"a":"{\"b\":\"[redacted]\"}"}`},
		{"?q=s3cr3t%2Fwith%22quotes&x", "?q=[redacted]&x"},
		{"{\"a\":\"\\u00fcber-geheim\"}", `{"a":"[redacted]"}`},
		{"short stays", "short stays"},
		{"abcdefghijk", "[redacted]"},
		{"xabcdefghabcdefghx", "x[redacted][redacted]x"},
		{"password=abcdefgh", "password=[redacted]"},
	} {
		if got := r.Redact(tt.in); got != tt.want {
			t.Errorf("Redact(%s)\n got %s\nwant %s", tt.in, got, tt.want)
		}
	}
}

// TestBase64 has a secret stand anywhere in what is encoded.
func TestBase64(t *testing.T) {
	var r Redactor
	r.Add("hunter2>?hunter2")
	for _, before := range []string{"", "a", "ab", "ann:", "someone:"} {
		for _, after := range []string{"", "\n", "xy", "xyz"} {
			for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding} {
				got := r.Redact("key " + e.EncodeToString([]byte(before+"hunter2>?hunter2"+after)))
				if !strings.Contains(got, "[redacted]") || len(got) > len("key [redacted]")+2*8+4 {
					t.Errorf("%q, %q: %s", before, after, got)
				}
			}
		}
	}
}

func TestPreview(t *testing.T) {
	big := strings.Repeat("x", 5000)
	for _, tt := range []struct {
		name, in string
		max      int
		want     string
	}{
		{"whole", "abc", 10, "abc"},
		{"exact", "abcdefghij", 10, "abcdefghij"},
		{"cut", big, 30, strings.Repeat("x", 9) + "… [cut, 5000 bytes]"},
		{"invalid", "a\xffb\xc3", 20, "a\ufffdb\ufffd"},
		{"grows", strings.Repeat("\xff.", 10), 24, ""},
		{"tiny", "äöü", 3, "ä"},
		{"rune", strings.Repeat("ä", 100), 31, ""},
		{"secret grows", "pwd=a;", 8, "pwd=[red"},
	} {
		got := new(Redactor).Preview([]byte(tt.in), tt.max)
		if !utf8.ValidString(got) || len(got) > tt.max {
			t.Errorf("%s: %q is no preview of at most %d bytes", tt.name, got, tt.max)
		}
		if tt.want != "" && got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A secret that the end of the preview cuts in two must not show its head.
func TestPreviewBorder(t *testing.T) {
	var r Redactor
	long := "longsecret-" + strings.Repeat("0123456789", 400)
	r.Add(long, "exactly-this-value")
	for _, secret := range []string{
		long, "exactly-this-value", "ghp_0123456789abcdefghij", "AKIAIOSFODNN7EXAMPLE",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
		`"password":"qqqqqqqqqqqqqqqqqqqq"`, "postgres://bob:qqqqqqqqqqqq@db",
		"-----BEGIN PRIVATE KEY-----\nqqqqqqqqqqqq\n-----END PRIVATE KEY-----",
	} {
		body := strings.TrimPrefix(strings.TrimPrefix(secret, `"password":"`), "postgres://bob:")
		for at := 0; at <= 256; at++ {
			in := strings.Repeat(".", at) + " " + secret + " " + strings.Repeat(".", 9000)
			got := r.Preview([]byte(in), 256)
			if strings.Contains(got, body[:5]) {
				t.Fatalf("at %d: %q shows the head of %.20s", at, got, secret)
			}
		}
	}
}

// What a redaction makes room for must not be filled from past the window,
// where a secret could be cut.
func TestPreviewShrinks(t *testing.T) {
	var r Redactor
	r.Add("exactly-this-value")
	for pad := 900; pad < 1400; pad++ {
		in := `{"password":"` + strings.Repeat("p", pad) + `","x":"exactly-this-value"}` + strings.Repeat(" ", 100)
		if got := r.Preview([]byte(in), 256); strings.Contains(got, "exactly") {
			t.Fatalf("pad %d: %q", pad, got)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add(`{"password":"x","text":"{\"token\":\"y\"}"}`, "s3cr3t-value", 64)
	f.Add("Authorization: Bearer abc\\", "value-of-secret", 5)
	f.Add(`\\\\\"token\\":\`, "abcabcabc", 100)
	f.Add("token=\\\\\\\\ --secret x <password>y ://a:b@", "abcabcabc", 4096)
	f.Fuzz(func(t *testing.T, s, value string, max int) {
		if max < 0 || max > 1<<16 {
			return
		}
		var r Redactor
		r.Add(value)
		got := r.Preview([]byte(s), max)
		if !utf8.ValidString(got) || len(got) > max {
			t.Errorf("%q is no preview of at most %d bytes", got, max)
		}
		known := len(forms(value)) > 0 && utf8.ValidString(value) && !strings.ContainsAny(value, "[]… \ufffd")
		if known && strings.Contains(r.Redact(s), value) {
			t.Errorf("Redact(%q) shows %q: %q", s, value, r.Redact(s))
		}
		if known && strings.Contains(got, value) {
			t.Errorf("Preview(%q) shows %q: %q", s, value, got)
		}
	})
}

var sample = func() []byte {
	item := `{"id":123,"title":"a title of some length","url":"https://example.com/a/b?c=d","tags":["x","y"],"user":{"login":"someone","id":77}},`
	b := []byte(`{"content":[{"type":"text","text":` + string(rawjson.Quote("["+strings.Repeat(item, 40))) + `}]}`)
	return b
}()

func BenchmarkPreview(b *testing.B) {
	const max = 4096
	for _, bb := range []struct {
		name   string
		values int
	}{{"patterns", 0}, {"values", 50}} {
		b.Run(bb.name, func(b *testing.B) {
			var r Redactor
			for i := range bb.values {
				r.Add("registered-secret-value-" + strings.Repeat(string(rune('a'+i%26)), 4+i))
			}
			b.SetBytes(max)
			for b.Loop() {
				r.Preview(sample, max)
			}
		})
	}
	b.Run("16MiB", func(b *testing.B) {
		big := []byte(strings.Repeat("some words and a token: x ", 16<<20/26))
		for b.Loop() {
			new(Redactor).Preview(big, max)
		}
	})
}

// Known takes only what the Redactor was told.
func TestKnown(t *testing.T) {
	var r Redactor
	r.Add("s3cr3t-value")
	for text, want := range map[string]string{
		`{"password":"rm -rf /"}`:                                `{"password":"rm -rf /"}`,
		`curl -H 'Authorization: Bearer abcdef123456; rm -rf /'`: `curl -H 'Authorization: Bearer abcdef123456; rm -rf /'`,
		`token=s3cr3t-value; rm`:                                 `token=[redacted]; rm`,
		`{"password":"s3cr3t-value"}`:                            `{"password":"[redacted]"}`,
	} {
		if got := r.Known(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestJSON has values taken out of JSON, and of nothing else.
func TestJSON(t *testing.T) {
	r := Redactor{ValuesOnly: true}
	same := []byte(`{"password":"x","t":"\u0041"}`)
	if left, ok := r.JSON(same); !ok || &left[0] != &same[0] {
		t.Errorf("%s, %v", left, ok)
	}
	r.Add(`s3cr3t+value`, `,"b":"`)
	for in, want := range map[string]string{
		`{"password":"x","t":"Bearer abcdefgh"}`:           `{"password":"x","t":"Bearer abcdefgh"}`,
		`{"t": "a\u0041 s3cr3t\u002Bvalue"}`:               `{"t": "a\u0041 [redacted]"}`,
		`{"t":"{\"t\":\"s3cr3t\\u002bvalue\"}", "n": 1.0}`: `{"t":"{\"t\":\"[redacted]\"}", "n": 1.0}`,
		`{"s3cr3t+value":1}`:                               `{"[redacted]":1}`,
		`{"a":1,"b":"c"}`:                                  "",
	} {
		if left, ok := r.JSON([]byte(in)); ok != (want != "") || ok && string(left) != want {
			t.Errorf("%s: %s, %v", in, left, ok)
		}
	}
}

// TestPassing gives a Redactor more tokens than it keeps: the newest stay known, and so
// does what is no token.
func TestPassing(t *testing.T) {
	var r Redactor
	r.AddPassing("first-token")
	r.Add("lasting-value")
	token := func(i int) string { return fmt.Sprintf("plain text %03d", i) }
	for i := range 10 * maxPassing {
		r.AddPassing(token(i))
		r.AddPassing("used again") // is as new as the last
	}
	margin := r.current().margin
	for text, known := range map[string]bool{
		"first-token": false, token(9*maxPassing - 1): false, token(9*maxPassing + 1): true, token(10*maxPassing - 1): true, "used again": true, "lasting-value": true,
	} {
		if got := r.Redact(text); (got != text) != known {
			t.Errorf("Redact(%q) = %q", text, got)
		}
	}
	if r.AddPassing(strings.Repeat("long", 1000)); r.current().margin <= margin {
		t.Error("a long token is not looked for")
	}
}

// TestSpare has references to secrets be shown, and what only begins like one not.
func TestSpare(t *testing.T) {
	var r Redactor
	refs := []string{"secret:gh", "vault:kv/app/token", "env:GH_TOKEN"}
	r.Spare(refs...)
	r.Spare(refs...)
	for in, want := range map[string]string{
		"secret:gh: file does not exist":          "secret:gh: file does not exist",
		"failed: secret:gh":                       "failed: secret:gh",
		`{"error":"secret:gh: no such secret"}`:   `{"error":"secret:gh: no such secret"}`,
		"vault:kv/app/token: nothing is there":    "vault:kv/app/token: nothing is there",
		"secret:ghp: file does not exist":         "secret:[redacted] file does not exist",
		"secret:gh_hunter2":                       "secret:[redacted]",
		"secret:other: file does not exist":       "secret:[redacted] file does not exist",
		"secret:gh: the token=hunter2 is refused": "secret:gh: the token=[redacted] is refused",
	} {
		if got := r.Redact(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
	r.Add("hunter2hunter2")
	if got := r.Redact("secret:gh: hunter2hunter2"); got != "secret:gh: [redacted]" {
		t.Errorf("a value beside a reference is shown: %q", got)
	}
}

// TestCut has a secret be known by its beginning where its writer says that it was cut.
func TestCut(t *testing.T) {
	var r Redactor
	r.Add("topsecretvalue123456")
	for text, want := range map[string]string{
		`said "xx topsecretva…" (no)`:     `said "xx [redacted]…" (no)`,
		"topsec…":                         "[redacted]…",
		"topsecretvalue123456…":           "[redacted]…",
		"topse… topsecret… topsecretful…": "topse… [redacted]… topsecretful…",
		"topsecretvalue":                  "topsecretvalue",
	} {
		if got := r.Redact(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
