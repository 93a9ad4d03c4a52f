package local

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// client speaks with a Server in process.
type client struct {
	t    testing.TB
	in   io.Writer
	out  *bufio.Reader
	next int
}

func serve(t testing.TB, cfg Config) *client {
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ir, iw := io.Pipe()
	or, ow := io.Pipe()
	done := make(chan error)
	go func() { done <- s.Serve(context.Background(), ir, ow) }()
	t.Cleanup(func() {
		iw.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &client{t: t, in: iw, out: bufio.NewReader(or)}
}

func (c *client) line() map[string]json.RawMessage {
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(line, &m); err != nil {
		c.t.Fatalf("%v: %s", err, line)
	}
	return m
}

func (c *client) send(method, params string) map[string]json.RawMessage {
	c.next++
	fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.next, method, params)
	return c.line()
}

// tool calls a tool and returns its text.
func (c *client) tool(name string, args any) (text string, isError bool) {
	raw, _ := json.Marshal(map[string]any{"name": name, "arguments": args})
	m := c.send("tools/call", string(raw))
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if json.Unmarshal(m["result"], &r) != nil || len(r.Content) != 1 {
		c.t.Fatalf("%s: no text: %s", name, m["error"])
	}
	return r.Content[0].Text, r.IsError
}

type args = map[string]any

func TestSession(t *testing.T) {
	c := serve(t, Config{})
	m := c.send("initialize", `{"protocolVersion":"2025-03-26","capabilities":{}}`)
	if !bytes.Contains(m["result"], []byte(`"protocolVersion":"2025-03-26"`)) {
		t.Errorf("initialize: %s", m["result"])
	}
	m = c.send("initialize", `{"protocolVersion":"1999-01-01"}`)
	if !bytes.Contains(m["result"], []byte(`"protocolVersion":"2025-11-25"`)) {
		t.Errorf("initialize: %s", m["result"])
	}
	var list struct {
		Tools []struct {
			Name        string
			InputSchema struct {
				Type       string
				Properties map[string]any
			}
		}
	}
	if err := json.Unmarshal(c.send("tools/list", "{}")["result"], &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.InputSchema.Type != "object" || len(tool.InputSchema.Properties) == 0 {
			t.Errorf("%s: no schema", tool.Name)
		}
	}
	if want := []string{"echo", "fetch_http", "grep_http", "http_headers"}; !slices.Equal(names, want) {
		t.Errorf("tools %v, want %v", names, want)
	}
	if text, _ := c.tool("echo", args{"text": "a <b> \u2028 ü\n"}); text != "a <b> \u2028 ü\n" {
		t.Errorf("echo: %q", text)
	}
	for _, bad := range []struct{ line, want string }{
		{`rubbish`, "-32700"},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"nope"}}`, "-32602"},
		{`{"jsonrpc":"2.0","id":7,"method":"nope"}`, "-32601"},
		{`{"jsonrpc":"2.0","id":7}`, "-32600"},
		{`{"jsonrpc":"2.0","id":8,"pad":"` + strings.Repeat("x", maxLine) + `"}`, "-32600"},
		{strings.Repeat("[", 1<<20), "-32700"},
	} {
		fmt.Fprintln(c.in, bad.line)
		if m := c.line(); !bytes.Contains(m["error"], []byte(bad.want)) {
			t.Errorf("%.60s: %s, want %s", bad.line, m["error"], bad.want)
		}
	}
	fmt.Fprintln(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	fmt.Fprintln(c.in, `[{"jsonrpc":"2.0","id":"b","method":"ping"}]`)
	if m := c.line(); string(m["id"]) != `"b"` {
		t.Errorf("batch: %s", m["id"])
	}
}

const sample = `<html><head><title>T</title><style>x{}</style></head><body><nav>menu</nav>
<main><h1>Head  line</h1><p>One <b>bold</b>, two.</p><ul><li>äpple</li><li>beta</li></ul><pre>a
  b</pre></main><script>bad()</script></body></html>`

func site(t testing.TB) *httptest.Server {
	mux := http.NewServeMux()
	answer := func(path, kind, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, body)
		})
	}
	answer("/page", "text/html; charset=utf-8", sample)
	answer("/json", "application/json", `{"a":1}`)
	answer("/image", "image/png", "\x89PNG\r\n\x1a\n")
	answer("/latin", "text/plain; charset=iso-8859-1", "caf\xe9 \x80")
	answer("/utf16", "text/plain", "\xff\xfeh\x00i\x00")
	answer("/runes", "text/plain; charset=utf-8", strings.Repeat("ü", 10))
	answer("/lines", "text/plain", "a\nb\nFOO one\nc\nd\ne\nf\ng\nh\nfoo two\ni\nfoo three\n")
	answer("/big", "text/plain", strings.Repeat("x", 5000))
	mux.HandleFunc("/gone", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no such thing", 404) })
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/plain")
		z := gzip.NewWriter(w)
		chunk := make([]byte, 1<<20)
		for range 64 {
			if _, err := z.Write(chunk); err != nil {
				return
			}
		}
		z.Close()
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", 302) })
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("u"))
		w.WriteHeader(302)
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestFetch(t *testing.T) {
	s := site(t)
	c := serve(t, Config{AllowPrivate: []string{"127.0.0.1"}, MaxBody: 4096, Timeout: time.Minute})
	for _, tc := range []struct {
		args  args
		wants []string
		fails bool
	}{
		{args{"url": s.URL + "/page"}, []string{"# Head line", "**bold**", "- äpple", "URL: " + s.URL, "Domain: 127.0.0.1", "Remaining: 0"}, false},
		{args{"url": s.URL + "/page", "format": "content"}, []string{"\n\nHead line\nOne bold, two.\näpple\nbeta\na\n  b"}, false},
		{args{"url": s.URL + "/page", "format": "raw"}, []string{"<script>bad()"}, false},
		{args{"url": s.URL + "/json"}, []string{`{"a":1}`}, false},
		{args{"url": s.URL + "/image"}, []string{"binary type image/png"}, true},
		{args{"url": s.URL + "/image", "format": "raw"}, []string{"PNG"}, false},
		{args{"url": s.URL + "/latin"}, []string{"café €"}, false},
		{args{"url": s.URL + "/utf16"}, []string{"\n\nhi"}, false},
		{args{"url": s.URL + "/runes", "start_index": 1, "max_length": 4}, []string{"Showing: 0-4\nRemaining: 16", "\n\nüü"}, false},
		{args{"url": s.URL + "/runes", "start_index": 4, "max_length": 1}, []string{"Showing: 4-6", "\n\nü"}, false},
		{args{"url": s.URL + "/runes", "start_index": 400}, []string{"Showing: 20-20\nRemaining: 0"}, false},
		{args{"url": s.URL + "/big", "max_length": 10}, []string{"Truncated: only the first 4096 bytes", "Content length: 4096"}, false},
		{args{"url": s.URL + "/bomb"}, []string{"Truncated"}, false},
		{args{"url": s.URL + "/gone"}, []string{"Status: 404 Not Found", "no such thing"}, true},
		{args{"url": s.URL + "/loop"}, []string{"more than 10 redirects"}, true},
		{args{"url": s.URL + "/to?u=/json"}, []string{`{"a":1}`}, false},
		{args{"url": s.URL + "/to?u=file:///etc/passwd"}, []string{"only http and https"}, true},
		{args{"url": s.URL + "/to?u=http://127.0.0.2:1/"}, []string{"refused: 127.0.0.2 is not a public address"}, true},
		{args{"url": "http://localhost:1/"}, []string{"refused"}, true},
		{args{"url": "http://[::ffff:127.0.0.3]/"}, []string{"refused"}, true},
		{args{"url": "file:///etc/passwd"}, []string{"refused"}, true},
		{args{"url": "http:///x"}, []string{"no host"}, true},
		{args{"url": "::"}, []string{"not a URL"}, true},
		{args{}, []string{"not a URL"}, true},
		{args{"url": s.URL + "/page", "format": "pdf"}, []string{"unknown format"}, true},
		{args{"url": s.URL + "/page", "start_index": -1}, []string{"start_index is negative"}, true},
		{args{"url": s.URL + "/page", "max_length": 0}, []string{"max_length is less than 1"}, true},
		{args{"url": 5}, []string{"argument URL is not of type string"}, true},
	} {
		text, failed := c.tool("fetch_http", tc.args)
		if failed != tc.fails {
			t.Errorf("%v: failed=%t: %s", tc.args, failed, text)
		}
		for _, want := range tc.wants {
			if !strings.Contains(text, want) {
				t.Errorf("%v: no %q in\n%s", tc.args, want, text)
			}
		}
		if !utf8.ValidString(text) {
			t.Errorf("%v: not UTF-8", tc.args)
		}
	}
}

// TestCharsets has text as it comes in the charsets of the web.
func TestCharsets(t *testing.T) {
	for _, c := range []struct{ kind, body, want, note string }{
		{"text/plain; charset=shift_jis", "\x93\xfa\x96{", "日本", ""},
		{"text/plain; charset=EUC-JP", "\xc6\xfc\xcb\xdc", "日本", ""},
		{"text/plain; charset=iso-2022-jp", "\x1b$BF|K\\\x1b(B", "日本", ""},
		{"text/plain; charset=gb2312", "\xd6\xd0\xce\xc4", "中文", ""},
		{"text/plain; charset=gb18030", "\xd6\xd0\x81\x30\x81\x30", "中\u0080", ""},
		{"text/plain; charset=big5", "\xa4\xa4\xa4\xe5", "中文", ""},
		{"text/plain; charset=euc-kr", "\xc7\xd1\xb1\xdb", "한글", ""},
		{"text/plain; charset=koi8-r", "\xf0\xf2\xe9", "ПРИ", ""},
		{"text/plain; charset=windows-1251", "\xcf\xf0\xe8", "При", ""},
		{"text/plain; charset=iso-8859-7", "\xe1\xe2", "αβ", ""},
		{"text/plain; charset=\"ISO-8859-15\"", "\xa4", "€", ""},
		{"text/plain; charset=us-ascii", "a\x80", "a€", ""},
		{"text/plain; charset=utf-8", "a\xffb", "a\ufffdb", ""},
		{"text/plain; charset=utf-16be", "\x00h\xd8\x3d\xde\x00", "h😀", ""},
		{"text/plain; charset=utf-16le", "h\x00i", "h\ufffd", ""},
		{"text/plain; charset=koi8-r", "\xef\xbb\xbfé", "é", ""},
		{"text/plain", "caf\xe9", "café", ""},
		{"text/plain", "café", "café", ""},
		{"text/plain", `<meta charset="big5">é`, `<meta charset="big5">é`, ""},
		{"text/html", "<meta charset=shift_jis>\x93\xfa", "<meta charset=shift_jis>日", ""},
		{"text/html", `<meta http-equiv=content-type content="text/html; charset=windows-1251">` + "\xcf", `<meta http-equiv=content-type content="text/html; charset=windows-1251">П`, ""},
		{"text/html", "<meta charset=UTF-16>é", "<meta charset=UTF-16>é", ""},
		{"text/html; charset=utf-8", "<meta charset=big5>é", "<meta charset=big5>é", ""},
		{"text/plain; charset=klingon", "a\x80b", "a\ufffdb", "Charset: klingon is not known; only ASCII is shown right"},
		{"text/plain; charset=iso-2022-kr", "a\x80b", "a\ufffdb", "Charset: iso-2022-kr is not known; only ASCII is shown right"},
	} {
		p := newPage(&http.Response{Request: httptest.NewRequest("GET", "/", nil), Header: http.Header{"Content-Type": {c.kind}}})
		p.body = []byte(c.body)
		if got := p.decode(); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.kind, c.body, got, c.want)
		}
		if got := strings.Join(p.notes, "\n"); got != c.note {
			t.Errorf("%s: notes %q, want %q", c.kind, got, c.note)
		}
	}
}

func TestGrep(t *testing.T) {
	s := site(t)
	c := serve(t, Config{AllowPrivate: []string{"127.0.0.0/8"}})
	text, _ := c.tool("grep_http", args{"url": s.URL + "/lines", "pattern": "foo", "context_lines": 1})
	want := "    2: b\n>>> 3: FOO one\n    4: c\n---\n    9: h\n>>> 10: foo two\n    11: i\n>>> 12: foo three\n    13: \n"
	if !strings.HasSuffix(text, "\n\n"+want) || !strings.Contains(text, "Matches: 3\n") {
		t.Errorf("got\n%s", text)
	}
	text, _ = c.tool("grep_http", args{"url": s.URL + "/lines", "pattern": "foo", "context_lines": 0, "max_matches": 2})
	if !strings.Contains(text, "Matches: 2+\n") || strings.Contains(text, "three") {
		t.Errorf("got\n%s", text)
	}
	text, _ = c.tool("grep_http", args{"url": s.URL + "/page", "pattern": "<h1>", "raw": true})
	if !strings.Contains(text, ">>> 2: <main><h1>") {
		t.Errorf("got\n%s", text)
	}
	for _, bad := range []args{
		{"url": s.URL + "/lines", "pattern": "("}, {"url": s.URL + "/lines"},
		{"url": s.URL + "/lines", "pattern": "a", "context_lines": -1}, {"url": s.URL + "/lines", "pattern": "a", "max_matches": 0},
		{"url": s.URL + "/lines", "pattern": strings.Repeat("a", maxPattern+1)},
	} {
		if text, failed := c.tool("grep_http", bad); !failed {
			t.Errorf("%v: %s", bad, text)
		}
	}
}

func TestHeaders(t *testing.T) {
	s := site(t)
	c := serve(t, Config{AllowPrivate: []string{"127.0.0.1"}})
	text, failed := c.tool("http_headers", args{"url": s.URL + "/json"})
	if failed || !strings.Contains(text, "Status: 200 OK") || !strings.Contains(text, "Content-Type: application/json\n") {
		t.Errorf("got\n%s", text)
	}
	if text, failed := c.tool("http_headers", args{"url": s.URL, "method": "POST"}); !failed {
		t.Errorf("got\n%s", text)
	}
}

func TestTimeout(t *testing.T) {
	s := site(t)
	c := serve(t, Config{AllowPrivate: []string{"127.0.0.1"}, Timeout: 50 * time.Millisecond})
	if text, failed := c.tool("fetch_http", args{"url": s.URL + "/slow"}); !failed || !strings.Contains(text, "timed out after 50ms") {
		t.Errorf("got\n%s", text)
	}
}

func TestCancel(t *testing.T) {
	s := site(t)
	c := serve(t, Config{AllowPrivate: []string{"127.0.0.1"}})
	fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"fetch_http","arguments":{"url":%q}}}`+"\n", s.URL+"/slow")
	fmt.Fprintln(c.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`)
	if m := c.send("ping", "{}"); string(m["id"]) == "77" {
		t.Error("a cancelled call was answered")
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`))
	f.Add([]byte(`[{"id":1,"method":"ping"}]`))
	f.Add([]byte(`{"id":[[`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.Contains(line, []byte("http")) {
			return // it would use the network
		}
		s, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		s.Serve(context.Background(), bytes.NewReader(line), &out)
		for _, answer := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
			if len(answer) > 0 && !json.Valid(answer) {
				t.Errorf("answered %q", answer)
			}
		}
	})
}

func FuzzContent(f *testing.F) {
	f.Add([]byte(sample), "text/html; charset=latin1")
	f.Add([]byte("\x1b$BF|K\\\x1b(B"), "text/plain; charset=iso-2022-jp")
	f.Add([]byte("<meta charset=gb18030>\x81\x30\x81"), "text/html")
	f.Fuzz(func(t *testing.T, body []byte, kind string) {
		p := newPage(&http.Response{Request: httptest.NewRequest("GET", "/", nil), Header: http.Header{"Content-Type": {kind}}})
		p.body = body
		p.sniff()
		for _, format := range []string{"raw", "content", "markdown"} {
			text, err := p.text(context.Background(), format)
			if err == nil && format != "markdown" && !utf8.ValidString(text) {
				t.Errorf("%s: not UTF-8", format)
			}
		}
	})
}

func BenchmarkEcho(b *testing.B) {
	c := serve(b, Config{})
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		c.next++
		fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`+"\n", c.next)
		if _, err := c.out.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
}

// With Stay only what a call names is fetched: a redirect elsewhere is told of.
func TestStay(t *testing.T) {
	s, other := site(t), site(t)
	c := serve(t, Config{AllowPrivate: []string{"127.0.0.1"}, Timeout: time.Minute, Stay: true})
	for target, want := range map[string]string{
		s.URL + "/to?u=/json":                    `{"a":1}`,
		s.URL + "/to?u=" + other.URL + "/json":   "redirected to another host or port: call again with \"" + other.URL + "/json\"",
		s.URL + "/to?u=http://evil.example/json": `call again with "http://evil.example/json"`,
	} {
		if text, fails := c.tool("fetch_http", args{"url": target}); !strings.Contains(text, want) || fails != strings.Contains(want, "call again") {
			t.Errorf("%s: %s", target, text)
		}
	}
	for _, tt := range []struct {
		from, to string
		same     bool
	}{
		{"http://a.example/", "https://A.example/x", true}, {"https://a.example/", "http://a.example/", false}, {"http://a.example:8080/", "https://a.example/", false},
		{"https://a.example/", "https://a.example:443/", true}, {"https://a.example/", "https://www.a.example/", false}, {"https://a.example/", "https://a.example.evil/", false},
	} {
		from, _ := url.Parse(tt.from)
		to, _ := url.Parse(tt.to)
		if samePlace(from, to) != tt.same {
			t.Errorf("%s and %s", tt.from, tt.to)
		}
	}
}

// A decision about one of two names that are the same to the decoder may have been about
// the other.
func TestFoldedArguments(t *testing.T) {
	var a fetchArgs
	for _, text := range []string{`{"url":"https://a/","URL":"https://b/"}`, `{"url":"https://a/","url":"https://b/"}`} {
		if err := decode([]byte(text), &a); err == nil || !strings.Contains(err.Error(), "ambiguous member") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A refusal is told from a failure by what the result says of itself.
func TestRefused(t *testing.T) {
	c := serve(t, Config{})
	for url, refused := range map[string]bool{"http://127.0.0.1:1/": true, "http://10.1.2.3/": true, "ftp://example.com/": true, "file:///etc/passwd": true, "http:///x": false} {
		m := c.send("tools/call", fmt.Sprintf(`{"name":"http_headers","arguments":{"url":%q}}`, url))
		if got := bytes.Contains(m["result"], []byte(`"_meta":{"hutch/refused":true}`)); got != refused || !bytes.Contains(m["result"], []byte(`"isError":true`)) {
			t.Errorf("%s: %s", url, m["result"])
		}
	}
}
