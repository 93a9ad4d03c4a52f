package pins

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A judge is a Store for tests, of one server.
type judge struct {
	*Store
	t      *testing.T
	dir    string
	strict bool
}

func newJudge(t *testing.T) *judge {
	dir := filepath.Join(t.TempDir(), "pins")
	return &judge{Store: New(dir), t: t, dir: dir}
}

// again has a new hutchd judge.
func (j *judge) again() { j.Store = New(j.dir) }

// tools are written as NAME TEXT, the text being the object of the tool.
func tools(list ...string) (all []Tool) {
	for _, l := range list {
		name, raw, _ := strings.Cut(l, " ")
		all = append(all, Tool{name, []byte(raw)})
	}
	return all
}

// holds has the tools judged. Those that are held back are as in want: nil, or a
// part of the reason for each.
func (j *judge) holds(want []string, list ...string) []Verdict {
	j.t.Helper()
	got := j.Judge("x", j.strict, tools(list...))
	for i, v := range got {
		w := ""
		if want != nil {
			w = want[i]
		}
		if (v.Held == "") != (w == "") || !strings.Contains(v.Held, w) || strings.Contains(v.Held, j.dir) {
			j.t.Errorf("%s: held %q, want %q", list[i], v.Held, w)
		}
	}
	return got
}

func TestChange(t *testing.T) {
	j := newJudge(t)
	j.holds(nil, `a {"name":"a","description":"one","inputSchema":{"type":"object","properties":{"x":1,"y":2}}}`, `b {}`)
	for range 2 {
		j.holds(nil, `a {"inputSchema": {"properties":{"y":2,"x":1},"type":"object"},"_meta":{"v":2},"icons":[],"description":"one","name":"srv__a"}`)
		held := j.holds([]string{"", "changed since it was approved: description, title"}, `b {}`, `a {"description":"two","title":"T","inputSchema":{"type":"object","properties":{"x":1,"y":2}}}`)
		if !held[1].News {
			t.Error("a change is no news")
		}
		held = j.holds([]string{"changed"}, `a {"description":"two","title":"T","inputSchema":{"type":"object","properties":{"x":1,"y":2}}}`)
		if held[0].News {
			t.Error("the same change is news again")
		}
		j.holds([]string{"inputSchema"}, `a {"description":"one","inputSchema":{"type":"object","properties":{"x":1,"y":2.0}}}`)
		j.holds(nil, `c {"description":"later"}`)
		j.again()
	}
	if text, err := j.Approved("x", "a"); err != nil || !strings.Contains(text, "\ndescription \"one\"\ninputSchema.properties.x 1\n") {
		t.Errorf("%q %v", text, err)
	}
	if err := j.Approve("x", tools(`a {"description":"two"}`)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		j.holds([]string{"", "changed", ""}, `a {"description":"two"}`, `b {"title":"B"}`, `c {"description":"later"}`)
		j.again()
	}
	if err := j.ApproveAll("x", tools(`b {"title":"B"}`), nil); err != nil {
		t.Fatal(err)
	}
	if text, _ := j.Approved("x", "a"); text != "" {
		t.Errorf("what is not offered is approved: %s", text)
	}
}

// Whatever readers read differently is another definition.
func TestAmbiguous(t *testing.T) {
	j := newJudge(t)
	for i, pair := range [][2]string{
		{`{"description":"good"}`, `{"description":"evil","description":"good"}`},
		{`{"description":"evil","description":"good"}`, `{"description":"other","description":"good"}`},
		{`{"description":"good"}`, `{"Description":"evil","description":"good"}`},
		{`{"inputSchema":{"a":1}}`, `{"inputSchema":{"a":2,"a":1}}`},
		{`{"description":"\ud800"}`, `{"description":"\udfff"}`},
		{"{\"description\":\"\xff\"}", "{\"description\":\"\xfe\"}"},
		{`{"x":1}`, `{"x":1.0}`},
		{`{"x":9007199254740993}`, `{"x":9007199254740992}`},
		{`{"description":"a"}`, `{"description":"a\u200b"}`},
		{`{}`, `{"future":true}`},
		{`{`, `{{`},
		{``, `null`},
	} {
		name := fmt.Sprint(i)
		j.holds(nil, name+" "+pair[0])
		j.holds([]string{"changed"}, name+" "+pair[1])
		j.holds(nil, name+" "+pair[0])
	}
	j.holds([]string{"", "two of that name"}, `d {"a":1}`, `d {"a":2}`)
	j.holds([]string{"two of that name", ""}, `d {"a":2}`, `d {"a":1}`)
}

func TestStrict(t *testing.T) {
	j := newJudge(t)
	j.strict = true
	j.holds(nil)
	j.holds(nil, `a {}`, `b {}`)
	for range 2 {
		j.holds([]string{"", "is new"}, `a {}`, `c {}`)
		j.again()
	}
	if err := j.Approve("x", tools(`c {}`)); err != nil {
		t.Fatal(err)
	}
	j.holds(nil, `a {}`, `b {}`, `c {}`)
}

// A server can offer what it likes: neither the file nor the memory grows.
func TestBounds(t *testing.T) {
	j := newJudge(t)
	huge := `"` + strings.Repeat("x", maxText/4) + `"`
	for i := range 8 {
		j.holds(nil, fmt.Sprintf(`huge%d {"description":%s}`, i, huge))
	}
	j.again()
	j.holds(nil, `huge7 {"description":`+huge+`}`)
	j.holds([]string{"since it was approved"}, `huge7 {"description":"x"}`)
	j.holds([]string{"1025 bytes"}, strings.Repeat("n", maxName+1)+` {}`)
	if text, err := j.Approved("x", "huge7"); err != nil || !strings.Contains(text, "too long to be kept") {
		t.Errorf("%.100q %v", text, err)
	}
	if text, err := j.Approved("x", "huge0"); err != nil || len(text) > maxShown+1000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	for i := range 3 {
		var many []Tool
		for n := range maxTools {
			many = append(many, Tool{fmt.Sprintf("%s%d-%d", strings.Repeat("n", 900), i, n), []byte(`{}`)})
		}
		held := 0
		for _, v := range j.Judge("x", false, many) {
			if v.Held != "" {
				held++
			}
		}
		if want := []int{8, maxTools, maxTools}[i]; held != want {
			t.Errorf("list %d: %d are held back, want %d", i, held, want)
		}
	}
	v := j.servers["x"]
	if fi, err := os.Stat(v.path); err != nil || fi.Size() > maxFile || len(v.held) > maxTools || len(v.pins) > maxTools {
		t.Errorf("%v %v, %d held, %d pins", fi.Size(), err, len(v.held), len(v.pins))
	}
	j.again()
	j.holds(nil, `huge7 {"description":`+huge+`}`)
	var escaped []Tool
	for n := range maxTools {
		escaped = append(escaped, Tool{fmt.Sprintf("%4d%s", n, strings.Repeat("\x01", maxName-4)), []byte(`{}`)})
	}
	for _, v := range j.Judge("y", false, escaped) {
		if v.Held != "" {
			t.Fatal(v.Held)
		}
	}
	j.again()
	if text, err := j.Approved("y", escaped[0].Name); err != nil || text == "" {
		t.Errorf("%q %v", text, err)
	}
	if err := j.ApproveAll("x", tools(`a {}`), nil); err != nil {
		t.Fatal(err)
	}
	j.holds(nil, `a {}`, `b {}`)
}

// TestHalfWritten finds what a service was writing when it was killed.
func TestHalfWritten(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".new-1", "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	New(dir)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "x" {
		t.Errorf("there is %v, %v", left, err)
	}
}

// A file that cannot be read approves nothing, whatever it is.
func TestDamaged(t *testing.T) {
	good := `{"tool":"a","digest":"` + DigestOf([]byte(`{}`)).String() + `","says":{}}` + "\n"
	for name, make := range map[string]func(path string) error{
		"cut":       func(path string) error { return os.WriteFile(path, []byte(good[:len(good)-1]), 0o600) },
		"twice":     func(path string) error { return os.WriteFile(path, []byte(good+good), 0o600) },
		"no digest": func(path string) error { return os.WriteFile(path, []byte(`{"tool":"a","says":{}}`+"\n"), 0o600) },
		"other": func(path string) error {
			return os.WriteFile(path, []byte(strings.Replace(good, "{}", `{"a":1}`, 1)), 0o600)
		},
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":   func(path string) error { return os.Symlink("/etc/passwd", path) },
		"too long": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("\n", maxFile+1)), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudge(t)
			path := filepath.Join(j.dir, "x")
			if err := os.MkdirAll(j.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			j.holds([]string{"cannot be read", "cannot be read"}, `a {}`, `b {}`)
			if err := j.Approve("x", tools(`a {}`)); err == nil {
				t.Error("one tool can be approved")
			}
			j.holds([]string{"cannot be read"}, `a {}`)
			if name == "a folder" {
				return
			}
			if err := j.ApproveAll("x", tools(`a {}`), nil); err != nil {
				t.Fatal(err)
			}
			j.holds([]string{"", "changed"}, `a {}`, `a {"title":"A"}`)
		})
	}
}

// What cannot be remembered is held back, and remembered once it can be.
func TestUnwritable(t *testing.T) {
	j := newJudge(t)
	if err := os.WriteFile(j.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j.holds([]string{"cannot be"}, `a {}`)
	if err := os.Remove(j.dir); err != nil {
		t.Fatal(err)
	}
	j.again()
	j.holds(nil, `a {}`)
	var none *Store
	if v := none.Judge("x", true, tools(`a {}`)); v[0].Held != "" {
		t.Errorf("%+v", v)
	}
}

func TestText(t *testing.T) {
	is := new(Store).Text([]byte(`{"name":"x","description":"one\ntwo\u001b[2J\u202e\u200b\udb40\udc41\ufe0f é","inputSchema":{"type":"object","required":["a"],"properties":{"a b":{},"c":[],"d":null,"e":1e400}},"title":""}`))
	want := []string{
		`description "one\n"`, `description "two\x1b[2J\u202e\u200b\U000e0041\U0000fe0f é"`,
		`inputSchema.properties."a b" {}`, `inputSchema.properties.c []`, `inputSchema.properties.d null`, `inputSchema.properties.e 1e400`,
		`inputSchema.required[0] "a"`, `inputSchema.type "object"`, `title ""`,
	}
	if got := strings.Split(strings.TrimSpace(is), "\n")[1:]; !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	deep := strings.Repeat(`{"`+strings.Repeat("k", 1000)+`":[1,`, 250) + "0" + strings.Repeat("]}", 250)
	if n := len(new(Store).Text([]byte(deep))); n > maxShown+200 {
		t.Errorf("%d bytes are shown", n)
	}
}

// FuzzBook has any file read: what is read is written as it is read again.
func FuzzBook(f *testing.F) {
	f.Add([]byte(`{"tool":"a","digest":"` + DigestOf([]byte(`{"b":[1]}`)).String() + `","says":{"b":[1]}}` + "\n"))
	f.Add([]byte(`{"tool":"a","digest":"00"}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := parse(text)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "x")
		if err := b.write(path); err != nil {
			t.Fatal(err)
		}
		again, err := read(path)
		if err != nil || len(again.pins) != len(b.pins) || again.size != b.size {
			t.Errorf("%v, %d pins of %d bytes, were %d of %d", err, len(again.pins), again.size, len(b.pins), b.size)
		}
	})
}

// FuzzDefine has any tool defined and shown: the same text is the same, and what is
// shown is of lines that a terminal shows.
func FuzzDefine(f *testing.F) {
	f.Add([]byte(`{"description":"a","inputSchema":{"type":"object"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if DigestOf(raw) != DigestOf(slices.Clone(raw)) {
			t.Error("two digests")
		}
		if d := define(raw); len(d) < maxText {
			b := newBook()
			if err := b.approve("x", new(Store).pin(d)); err != nil || b.pins["x"].digest != DigestOf(raw) {
				t.Error(err)
			}
		}
		if i := strings.IndexFunc(new(Store).Text(raw), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x202e }); i >= 0 {
			t.Errorf("%q", new(Store).Text(raw))
		}
	})
}

// TestDiffer has two definitions of very many members be told apart in time.
func TestDiffer(t *testing.T) {
	var was, is strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&was, `"a%d":1,`, i)
		fmt.Fprintf(&is, `"b%d":1,`, i)
	}
	a, b := define([]byte("{"+was.String()+`"z":1}`)), define([]byte("{"+is.String()+`"z":1}`))
	done := make(chan []string, 1)
	go func() { done <- differ(a, b) }()
	select {
	case names := <-done:
		if len(names) != maxDiffer {
			t.Errorf("%d names", len(names))
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it takes too long")
	}
}

// TestUnreadable has a file that cannot be read for a while hold back what it is
// about, once told, until it can.
func TestUnreadable(t *testing.T) {
	j := newJudge(t)
	j.holds(nil, `a {}`)
	path, aside := filepath.Join(j.dir, "x"), filepath.Join(j.dir, "aside")
	if err := errors.Join(os.Rename(path, aside), os.Symlink("aside", path)); err != nil {
		t.Fatal(err)
	}
	j.again()
	for i := range 2 {
		if v := j.holds([]string{"cannot be read"}, `a {}`); v[0].News != (i == 0) {
			t.Errorf("time %d: news %v", i, v[0].News)
		}
	}
	if err := os.Rename(aside, path); err != nil {
		t.Fatal(err)
	}
	j.holds([]string{"", "changed"}, `a {}`, `a {"title":"A"}`)
}

// TestHide has a server that says its secret in its tools: it is on no disk and is not
// shown, and a tool is told from another all the same.
func TestHide(t *testing.T) {
	j := newJudge(t)
	hide := func(text string) string { return strings.ReplaceAll(text, "4242424242", "[redacted]") }
	j.Hide = hide
	const said = `{"description":"by the key 4242424242","inputSchema":{"default":"4242424242"}}`
	j.holds(nil, "a "+said, `number {"description":"","inputSchema":{"default":4242424242}}`)
	kept, err := os.ReadFile(filepath.Join(j.dir, "x"))
	if err != nil || strings.Contains(string(kept), "42424242") || !strings.Contains(string(kept), "by the key [redacted]") {
		t.Errorf("%s %v", kept, err)
	}
	j.again()
	j.Hide = hide
	j.holds(nil, "a "+said, `number {"description":"","inputSchema":{"default":4242424242}}`)
	text, err := j.Approved("x", "a")
	if want := "digest " + DigestOf([]byte(said)).String() + "\ndescription \"by the key [redacted]\"\ninputSchema.default \"[redacted]\"\n"; err != nil || text != want || j.Text([]byte(said)) != want {
		t.Errorf("%s and %s, want %s, %v", text, j.Text([]byte(said)), want, err)
	}
	j.holds([]string{"changed since it was approved: description"}, `a {"description":"4242424242 is new","inputSchema":{"default":"4242424242"}}`)
	j.holds([]string{"changed since it was approved"}, `number {"description":"","inputSchema":{"default":42424242420}}`)
}
