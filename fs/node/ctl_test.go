package node

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
		bad  bool
	}{
		{"", nil, false},
		{"  \t ", nil, false},
		{"start", []string{"start"}, false},
		{" set  ram\t512MiB ", []string{"set", "ram", "512MiB"}, false},
		{"exec echo 'it''s' ''", []string{"exec", "echo", "it's", ""}, false},
		{"a'b c'd", []string{"ab cd"}, false},
		{"''''", []string{"'"}, false},
		{"x 'open", nil, true},
		{`\n "a b"`, []string{`\n`, `"a`, `b"`}, false},
	} {
		got, err := Words(tt.in)
		if (err != nil) != tt.bad || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Words(%q) = %q, %v", tt.in, got, err)
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{"", "a b", "it''s", "'a b' c", "'''", "\t\x00", "exec sh -c 'echo ''x'''"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		words, err := Words(s)
		if err != nil {
			return
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = Quote(w)
		}
		again, err := Words(strings.Join(quoted, " "))
		if err != nil || len(again) != len(words) || len(words) > 0 && !reflect.DeepEqual(again, words) {
			t.Errorf("%q: words %q, quoted and cut again %q, %v", s, words, again, err)
		}
	})
}

// verbs records what was done.
func verbs(done *[]string) []Verb[int] {
	do := func(name string) func(Call[int], []string) error {
		return func(_ Call[int], args []string) error {
			*done = append(*done, strings.Join(append([]string{name}, args...), "|"))
			return nil
		}
	}
	return []Verb[int]{
		{Name: "start", Do: do("start")},
		{Name: "set", Args: "K V", Min: 2, Max: 2, Do: do("set")},
		{Name: "exec", Args: "WORDS…", Min: 1, Max: -1, Do: do("exec")},
		{Name: "sh", Args: "LINE", Raw: true, Do: do("sh")},
		{Name: "fail", Do: func(Call[int], []string) error { return ErrBusy }},
	}
}

func TestRun(t *testing.T) {
	for _, tt := range []struct{ message, done, err string }{
		{"start", "start", ""},
		{"  start  ", "start", ""},
		{"", "", ""},
		{"# start", "", ""},
		{"set a 'b c'", "set|a|b c", ""},
		{"set a", "", `invalid argument: wrong number of words in control message "set a": want "set K V"`},
		{"start now", "", `invalid argument: wrong number of words in control message "start now": want "start"`},
		{"exec", "", `invalid argument: wrong number of words in control message "exec": want "exec WORDS…"`},
		{"exec a b c", "exec|a|b|c", ""},
		{"sh echo 'it''s'; x", "sh|echo 'it''s'; x", ""},
		{"sh ", "", `invalid argument: wrong number of words in control message "sh ": want "sh LINE"`},
		{"strat", "", `invalid argument: unknown control message "strat"`},
		{"set 'a", "", `invalid argument: quote not closed in control message "set 'a"`},
		{"'start'", "start", ""},
		{"''", "", `invalid argument: unknown control message "''"`},
	} {
		var done []string
		err := Run(verbs(&done), Call[int]{Ctx: context.Background()}, tt.message)
		if got := strings.Join(done, ";"); got != tt.done || Text(err) != tt.err {
			t.Errorf("%q: did %q, error %q, want %q, %q", tt.message, got, Text(err), tt.done, tt.err)
		}
	}
}

// FuzzRun writes rubbish to a ctl file in two pieces.
func FuzzRun(f *testing.F) {
	f.Add([]byte("start\nset a b\n"), 3)
	f.Add([]byte("exec 'a\nsh x\n"), 8)
	f.Add([]byte("st\x00art"), 1)
	f.Add([]byte(strings.Repeat("exec ", 10000)), 40000)
	f.Fuzz(func(t *testing.T, p []byte, cut int) {
		if cut < 0 || cut > len(p) {
			cut = len(p)
		}
		var done []string
		table := verbs(&done)
		w := NewWriter(func(ctx context.Context, m string) error {
			if strings.ContainsAny(m, "\n\x00") || len(m) > MaxMessage {
				t.Errorf("message %q", m)
			}
			return Run(table, Call[int]{Ctx: ctx}, m)
		}, func(part string) bool { return Admits(table, part) })
		for _, piece := range [][]byte{p[:cut], p[cut:]} {
			if n, err := w.Write(context.Background(), piece); err == nil && n != len(piece) {
				t.Errorf("wrote %d of %d", n, len(piece))
			}
		}
		w.Flush(context.Background())
	})
}

func TestWriterPieces(t *testing.T) {
	for _, tt := range []struct {
		pieces []string
		done   string
		err    string
	}{
		{[]string{"start\n"}, "start", ""},
		{[]string{"sta", "rt\n"}, "start", ""},
		{[]string{"s", "t", "a", "r", "t", "\n"}, "start", ""},
		{[]string{"start\nset a", " b\n"}, "start;set|a|b", ""},
		{[]string{"start"}, "start", ""},
		{[]string{"start\r\n"}, "start", ""},
		{[]string{"start\nfail\nstart\n"}, "start", "file in use"},
		{[]string{"start\nfrob\nstart\n"}, "start", `invalid argument: unknown control message "frob"`},
		{[]string{"zz"}, "", `invalid argument: unknown control message "zz"`},
		{[]string{"zz", "start\n"}, "start", `invalid argument: unknown control message "zz"`},
		{[]string{"a\x00b\n"}, "", "invalid argument: message has a NUL at byte 1"},
		{[]string{strings.Repeat("exec", 1<<14)}, "", "invalid argument: message of 65536 bytes: at most 32768"},
		{[]string{"exec " + strings.Repeat("x", 30000), strings.Repeat("x", 30000) + "\n", "start\n"}, "start", "invalid argument: message of 60005 bytes: at most 32768"},
	} {
		var done []string
		table := verbs(&done)
		w := NewWriter(func(ctx context.Context, m string) error { return Run(table, Call[int]{Ctx: ctx}, m) },
			func(part string) bool { return Admits(table, part) })
		var errs []error
		for _, p := range tt.pieces {
			_, err := w.Write(context.Background(), []byte(p))
			errs = append(errs, err)
		}
		errs = append(errs, w.Flush(context.Background()))
		if got := strings.Join(done, ";"); got != tt.done || Text(errors.Join(errs...)) != tt.err {
			t.Errorf("%.40q: did %.80q, error %q, want %q, %q", tt.pieces, got, Text(errors.Join(errs...)), tt.done, tt.err)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"": "''", "a": "a", "a b": "'a b'", "it's": "'it''s'", "#x": "'#x'"} {
		if got := Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}

// TestWriterJoins gives up a write that is under way, and writes again.
func TestWriterJoins(t *testing.T) {
	for _, tt := range []struct {
		again string
		want  string // what was done in all
		err   error
	}{
		{"start\n", "start", ErrBusy},              // the same: its result, done once
		{"stop\n", "start;stop", nil},              // another: after the first
		{"start\nstop\n", "start;start;stop", nil}, // not the same
	} {
		var done []string
		begun, goOn := make(chan struct{}), make(chan struct{})
		first := true
		w := NewWriter(func(_ context.Context, m string) error {
			done = append(done, m)
			if !first {
				return nil
			}
			first = false
			close(begun)
			<-goOn
			return ErrBusy
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error)
		go func() {
			_, err := w.Write(ctx, []byte("start\n"))
			gaveUp <- err
		}()
		<-begun
		cancel()
		if err := <-gaveUp; err != context.Canceled {
			t.Fatal(err)
		}
		// A second that gives up too changes nothing.
		if _, err := w.Write(ctx, []byte(tt.again)); err != context.Canceled {
			t.Fatal(err)
		}
		close(goOn)
		_, err := w.Write(t.Context(), []byte(tt.again))
		if got := strings.Join(done, ";"); got != tt.want || err != tt.err {
			t.Errorf("%q: done %q, %v, want %q, %v", tt.again, got, err, tt.want, tt.err)
		}
	}
}
