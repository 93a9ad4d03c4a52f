package fs

import (
	"context"
	"errors"
	"reflect"
	"slices"
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
		{Name: "exec", Args: "WORDS…", Min: 1, Max: -1, Lines: "quote it", Do: do("exec")},
		{Name: "sh", Args: "LINE", Raw: true, Shell: true, Do: do("sh")},
		{Name: "call", Args: "JSON", Raw: true, Do: do("call")},
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
		{"strat", "", `invalid argument: unknown control message "strat"; known: start set exec sh call fail`},
		{"set 'a", "", `invalid argument: quote not closed in control message "set 'a"`},
		{"'start'", "start", ""},
		{"''", "", `invalid argument: unknown control message "''"; known: start set exec sh call fail`},
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
		w := NewWriter(table, func(ctx context.Context, m string) error {
			if strings.Contains(m, "\x00") || len(m) > MaxMessage {
				t.Errorf("message %q", m)
			}
			return Run(table, Call[int]{Ctx: ctx}, m)
		})
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
		{[]string{"start\nfrob\nstart\n"}, "start", `invalid argument: unknown control message "frob"; known: start set exec sh call fail`},
		{[]string{"zz"}, "", `invalid argument: unknown control message "zz"; known: start set exec sh call fail`},
		{[]string{"zz", "start\n"}, "start", `invalid argument: unknown control message "zz"; known: start set exec sh call fail`},
		{[]string{"a\x00b\n"}, "", "invalid argument: message has a NUL at byte 1"},
		{[]string{strings.Repeat("exec", 1<<19)}, "", "invalid argument: message of 2097152 bytes: at most 1048576"},
		{[]string{"exec " + strings.Repeat("x", 1<<20-10), strings.Repeat("x", 1<<10) + "\n", "start\n"}, "start", "invalid argument: message of 1049595 bytes: at most 1048576"},

		// Quoted words span lines.
		{[]string{"exec echo 'a\nstart'\n"}, "exec|echo|a\nstart", ""},
		{[]string{"exec echo 'a\n", "start'\n"}, "exec|echo|a\nstart", ""},
		{[]string{"exec '", "it'", "'s\n", "\n", "'\nstart\n"}, "exec|it's\n\n;start", ""},
		{[]string{"exec 'a\r\nb'\r\nstart\n"}, "exec|a\r\nb;start", ""},
		{[]string{"# it's\nstart\n"}, "start", ""},
		{[]string{"exec a#'\nb'\n"}, "exec|a#\nb", ""},
		{[]string{"exec it's\n"}, "", `invalid argument: quote not closed in control message "exec it's\n"`},
		// What was in quotes of a message that failed is no message.
		{[]string{"exex 'a\n", "start\n", "'\n", "set a b\n"}, "set|a|b", `invalid argument: unknown control message "exex 'a\nstart\n'"; known: start set exec sh call fail`},
		{[]string{"fail\nexec 'a\n", "start\n'\nset a b\n", "start\n"}, "start", "file in use; file in use"},
		{[]string{"exec '" + strings.Repeat("x", 1<<20), "\nstart\n", "'\n", "set a b\n"}, "set|a|b", strings.Repeat("; invalid argument: message of 1048582 bytes: at most 1048576", 3)[2:]},
		{[]string{"exec '\x00", "start\n", "'\n", "set a b\n"}, "set|a|b", strings.Repeat("; invalid argument: message has a NUL at byte 6", 3)[2:]},
		{[]string{"set 'a", "\nstart\n'\n", "\nstart\n'\n"}, "", strings.Repeat("; "+`invalid argument: wrong number of words in control message "set 'a\nstart\n'": want "set K V"`, 2)[2:]},

		// Lines whose quotes a shell has taken away.
		{[]string{"exec sh -c a\nb\n"}, "exec|sh|-c|a", `invalid argument: unknown control message "b": quote it`},
		{[]string{"exec a\n", "\n# c\n", "b\n", "z", "start\nd\n"}, "exec|a;start", `invalid argument: unknown control message "b": quote it; invalid argument: unknown control message "z": quote it; invalid argument: unknown control message "d"; known: start set exec sh call fail`},

		// A shell's line goes on as it does for the shell.
		{[]string{"sh echo 'a\nb'; c\nstart\n"}, "sh|echo 'a\nb'; c;start", ""},
		{[]string{"sh echo \"it's\nb\"\nstart\n"}, "sh|echo \"it's\nb\";start", ""},
		{[]string{"sh echo it\\'s \\\nb\nstart\n"}, "sh|echo it\\'s \\\nb;start", ""},
		{[]string{"sh echo $'it\\'s\nb'\nstart\n"}, "sh|echo $'it\\'s\nb';start", ""},
		{[]string{"sh echo \"$(echo \"it's\" 'a\"')\" # it's\nstart\n"}, "sh|echo \"$(echo \"it's\" 'a\"')\" # it's;start", ""},
		{[]string{"sh echo $((1+(2))) `date\n`x#'\n'\nstart\n"}, "sh|echo $((1+(2))) `date\n`x#'\n';start", ""},
		{[]string{"sh\techo a;)'\n'\n"}, "sh|echo a;)'\n'", ""},
		{[]string{"call {\"a\":\"it's $( \\\n", "start\n"}, "call|{\"a\":\"it's $( \\;start", ""},
		{[]string{"sh echo it's\n"}, "sh|echo it's", ""}, // the shell says what is wrong
	} {
		var done []string
		table := verbs(&done)
		w := NewWriter(table, func(ctx context.Context, m string) error { return Run(table, Call[int]{Ctx: ctx}, m) })
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
	for _, tt := range []struct{ in, word, line string }{
		{"", "''", "''"},
		{"a", "a", "a"},
		{"a b", "'a b'", "'a b'"},
		{"it's", "'it''s'", "'it''s'"},
		{"#x", "'#x'", "'#x'"},
		{"a\nb", "'a\nb'", `"a\nb"`},
		{"a\r", "'a\r'", `"a\r"`},
		{`"a"`, `"a"`, `'"a"'`},
		{"\xff\x1b", "\xff\x1b", `"\xff\x1b"`},
		{`a\n`, `a\n`, `a\n`},
	} {
		if got := Quote(tt.in); got != tt.word {
			t.Errorf("Quote(%q) = %s, want %s", tt.in, got, tt.word)
		}
		if got := QuoteLine(tt.in); got != tt.line {
			t.Errorf("QuoteLine(%q) = %s, want %s", tt.in, got, tt.line)
		}
	}
}

// FuzzQuote writes words to a ctl file, in two pieces and with a message
// behind it, and has them read back from a line.
func FuzzQuote(f *testing.F) {
	f.Add("echo", "a\nstart", 9)
	f.Add("it''s", "# \t\r", 0)
	f.Add("\xff\n'", `"x"`, 7)
	f.Add("", "\n", 100)
	f.Fuzz(func(t *testing.T, a, b string, cut int) {
		want := []string{a, b}
		var got [][]string
		do := func(_ Call[int], args []string) error {
			got = append(got, args)
			return nil
		}
		table := []Verb[int]{{Name: "exec", Min: 0, Max: -1, Do: do}}
		w := NewWriter(table, func(ctx context.Context, m string) error { return Run(table, Call[int]{Ctx: ctx}, m) })
		message := "exec " + QuoteAll(want) + "\nexec\n"
		cut = max(0, min(cut, len(message)))
		_, err := w.Write(t.Context(), []byte(message[:cut]))
		_, err2 := w.Write(t.Context(), []byte(message[cut:]))
		switch nul := strings.Contains(a+b, "\x00"); {
		case nul != (err != nil || err2 != nil):
			t.Errorf("%q: %v, %v", message, err, err2)
		case !nul && (len(got) != 2 || !slices.Equal(got[0], want)):
			t.Errorf("%q: %q", message, got)
		case nul && slices.ContainsFunc(got, func(args []string) bool { return len(args) > 0 }):
			t.Errorf("%q: did %q", message, got)
		}
		line := QuoteLine(a) + " " + QuoteLine(b)
		back, err := LineWords(line+"\n", -1)
		if !slices.Equal(back, want) || err != nil || strings.Contains(line, "\n") {
			t.Errorf("%q as %s: %q, %v", want, line, back, err)
		}
	})
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
		w := NewWriter[int](nil, func(_ context.Context, m string) error {
			done = append(done, m)
			if !first {
				return nil
			}
			first = false
			close(begun)
			<-goOn
			return ErrBusy
		})
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

// TestCompleteAgain has a reader give up on the answer to a question that it
// completed, as at a signal, and read again: the question is asked once.
func TestCompleteAgain(t *testing.T) {
	asked, answer := make(chan string, 2), make(chan error)
	w := NewLongWriter(func(ctx context.Context, line string) error {
		asked <- line
		return <-answer
	}, 100)
	if _, err := w.Write(t.Context(), []byte("what")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan error)
	go func() { read <- w.Complete(ctx) }()
	if line := <-asked; line != "what" {
		t.Errorf("asked %q", line)
	}
	cancel()
	if err := <-read; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	go func() { read <- w.Complete(t.Context()) }()
	select {
	case err := <-read:
		t.Fatalf("read again: %v before the answer", err)
	case answer <- ErrIO:
	}
	if err := <-read; !errors.Is(err, ErrIO) {
		t.Errorf("read again: %v", err)
	}
	if len(asked) > 0 {
		t.Errorf("asked %q again", <-asked)
	}
}
