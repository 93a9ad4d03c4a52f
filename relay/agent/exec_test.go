package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hutch/fs"
	"hutch/fs/need"
)

func TestExec(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "exec sh -c 'echo out; echo err >&2; exit 3'")
	g.want("exec/t/stdout", "out\n")
	g.want("exec/t/stderr", "err\n")
	if line := g.read("exec/t/wait"); !regexp.MustCompile(`^3 \d+\.\d{3} \d+\.\d{3} \d+\.\d{3}\n$`).MatchString(line) {
		t.Errorf("wait is %q", line)
	}
	g.want("exec/t/stdout", "out\n") // it can be read again
	g.want("exec/t/cmd", "sh -c 'echo out; echo err >&2; exit 3'\n")
	if s := g.read("exec/t/status"); !strings.HasPrefix(s, "exited\n") || !strings.Contains(s, "stdout 4\n") {
		t.Errorf("status is %q", s)
	}
	if err := g.rmdir("t"); err != nil {
		t.Fatal(err)
	}
	if _, err := g.walk("exec/t"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("walk to what was dropped: %v", err)
	}
}

func TestSettings(t *testing.T) {
	g := newGuest(t)
	dir := t.TempDir()
	g.exec("t", "dir "+dir, "env GREETING 'it''s me'", "timeout 60s", "limit 1MiB", "sh pwd; echo $GREETING")
	g.want("exec/t/stdout", dir+"\nit's me\n")
	g.want("exec/t/ctl", "dir "+dir+"\nenv GREETING 'it''s me'\ntimeout 1m0s\nlimit 1048576\n")
}

// TestPrograms has every command find hutch's programs, whatever its PATH is.
func TestPrograms(t *testing.T) {
	g := newGuest(t)
	g.a.cfg.Programs = "/hutch/bin"
	for name, c := range map[string]struct{ lines, want string }{
		"ours":  {"", os.Getenv("PATH") + ":/hutch/bin"},
		"own":   {"env PATH /usr/bin:/bin", "/usr/bin:/bin:/hutch/bin"},
		"there": {"env PATH /hutch/bin:/usr/bin:/bin", "/hutch/bin:/usr/bin:/bin"},
	} {
		g.exec(name, strings.TrimPrefix(c.lines+"\nexec /usr/bin/env", "\n"))
		if got := g.read("exec/" + name + "/stdout"); !strings.Contains("\n"+got, "\nPATH="+c.want+"\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
	g.write("env", "PATH\x00")
	g.exec("gone", "exec /usr/bin/env")
	if got := g.read("exec/gone/stdout"); !strings.Contains(got, "\nPATH="+defaultPath+":/hutch/bin\n") {
		t.Errorf("without a PATH: %q", got)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("OF_AGENT", "a")
	t.Setenv("HUTCH_PORTS", "/secret")
	g := newGuest(t)
	if err := g.write("ctl", "env OF_VM v\nenv BOTH vm\n"); err != nil {
		t.Fatal(err)
	}
	g.exec("t", "env BOTH exec", "sh echo $OF_AGENT $OF_VM $BOTH $LANG [$HUTCH_PORTS] ${PATH:+path} ${HOME:+home} ${USER:+user}")
	g.want("exec/t/stdout", "a v exec C.UTF-8 [] path home user\n")
	g.want("ctl", "env BOTH vm\nenv OF_VM v\n")
}

func TestRefusedStarts(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	rubbish := filepath.Join(dir, "rubbish")
	os.WriteFile(plain, []byte("text"), 0o644)
	os.WriteFile(rubbish, []byte("no program"), 0o755)
	for _, c := range []struct {
		lines string
		want  error
		text  string
	}{
		{"exec no-such-program", fs.ErrNotExist, "no-such-program"},
		{"exec /no/such/program", fs.ErrNotExist, "/no/such/program"},
		{"exec " + plain, fs.ErrPermission, "not executable"},
		{"exec " + dir, fs.ErrPermission, "directory"},
		{"exec " + rubbish, fs.ErrInvalid, "#!"},
		{"dir /no/such/dir\nexec true", fs.ErrInvalid, "/no/such/dir"},
		{"dir " + plain + "\nexec true", fs.ErrNotDir, plain},
		{"dir relative\nexec true", fs.ErrInvalid, "absolute"},
		{"env PATH /no\nexec true", fs.ErrNotExist, "/no"},
		{"exec true " + strings.Repeat("x", 128<<10), fs.ErrArgs, "131072 bytes: at most 131071"},
		{"exec", fs.ErrInvalid, "WORDS"},
		{"sh", fs.ErrInvalid, "LINE"},
		{"frob", fs.ErrInvalid, "frob"},
		{"user nobody-of-that-name", fs.ErrInvalid, "nobody-of-that-name"},
		{"user 0:x", fs.ErrInvalid, "x"},
		{"user 4294967295", fs.ErrInvalid, `user "4294967295": no user or group has the number 4294967295`},
		{"user 0:4294967295", fs.ErrInvalid, `user "0:4294967295"`},
		{"tty 0 80", fs.ErrInvalid, "0"},
		{"tty a b", fs.ErrInvalid, "a"},
		{"timeout soon", fs.ErrInvalid, "soon"},
		{"timeout -1s", fs.ErrInvalid, "-1s"},
		{"limit lots", fs.ErrInvalid, "lots"},
		{"limit 1", fs.ErrInvalid, "at least"},
		{"env A=B c", fs.ErrInvalid, "A=B"},
		{"signal SIGNONE", fs.ErrInvalid, "SIGNONE"},
		{"signal TERM", fs.ErrBusy, "new"},
		{"kill", fs.ErrBusy, "new"},
	} {
		g := newGuest(t)
		g.exec("t")
		err := g.write("exec/t/ctl", c.lines+"\n")
		if !errors.Is(err, c.want) || !strings.Contains(fs.Text(err), c.text) {
			t.Errorf("%q: got %q, want %q with %q", c.lines, fs.Text(err), c.want, c.text)
			continue
		}
		g.want("exec/t/err", fs.Text(err)+"\n")
		g.want("err", fs.Text(err)+"\n")
		if err := g.write("exec/t/ctl", "env PATH /bin:/usr/bin\ndir /\nexec echo again\n"); err != nil {
			t.Errorf("%q: no second try: %v", c.lines, err)
			continue
		}
		g.want("exec/t/stdout", "again\n")
	}
}

func TestExecTwice(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "exec cat")
	if err := g.write("exec/t/ctl", "exec true\n"); !errors.Is(err, fs.ErrBusy) {
		t.Errorf("second exec: %v", err)
	}
	if err := g.write("exec/t/ctl", "dir /\n"); !errors.Is(err, fs.ErrBusy) {
		t.Errorf("dir while it runs: %v", err)
	}
	if err := g.write("exec/t/ctl", "eof\n"); err != nil {
		t.Error(err)
	}
	if s := g.status("t"); s != "0" {
		t.Errorf("status %s", s)
	}
	if err := g.write("exec/t/ctl", "exec true\n"); !errors.Is(err, fs.ErrBusy) {
		t.Errorf("exec after the end: %v", err)
	}
}

func TestStdin(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "exec cat")
	in, other := g.open("exec/t/stdin", os.O_WRONLY), g.open("exec/t/stdin", os.O_WRONLY)
	io.WriteString(in, "one\n")
	other.Close()
	io.WriteString(in, "two\n")
	in.Close() // the last one: end of input
	g.want("exec/t/stdout", "one\ntwo\n")
	if err := g.write("exec/t/stdin", "more"); !errors.Is(err, fs.ErrPipe) {
		t.Errorf("write after the end: %v", err)
	}
}

func TestStdinBeforeExec(t *testing.T) {
	g := newGuest(t)
	g.exec("t")
	if err := g.write("exec/t/stdin", "early"); err != nil {
		t.Fatal(err)
	}
	if err := g.write("exec/t/ctl", "exec no-such-program\n"); err == nil {
		t.Fatal("started")
	}
	if err := g.write("exec/t/ctl", "exec cat\n"); err != nil {
		t.Fatal(err)
	}
	g.want("exec/t/stdout", "early")
}

func TestStdinOfLostConnection(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "exec cat")
	in := g.open("exec/t/stdin", os.O_WRONLY)
	io.WriteString(in, "one\n")
	g.from.Close()
	in.Close()
	g.connect()
	if err := g.write("exec/t/stdin", "two\n"); err != nil {
		t.Fatal(err)
	}
	g.want("exec/t/stdout", "one\ntwo\n")
}

func TestBrokenStdin(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "exec true")
	g.status("t")
	if err := g.write("exec/t/stdin", "x"); !errors.Is(err, fs.ErrPipe) {
		t.Errorf("write to nobody: %v", err)
	}
}

func TestCancelledWrite(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "exec sleep 1000")
	in := g.open("exec/t/stdin", os.O_WRONLY)
	ctx, cancel := context.WithCancel(t.Context())
	type result struct {
		n   int
		err error
	}
	wrote := make(chan result)
	big := make([]byte, 1<<20)
	go func() {
		n, err := in.WriteAt(ctx, big, 0)
		wrote <- result{n, err}
		n, err = in.WriteAt(ctx, big, 0) // full and cancelled
		wrote <- result{n, err}
	}()
	cancel()
	if r := <-wrote; r.n == len(big) || r.n == 0 && r.err == nil {
		t.Errorf("wrote %d, %v", r.n, r.err)
	}
	if r := <-wrote; r.n == 0 && !errors.Is(r.err, context.Canceled) {
		t.Errorf("wrote %d, %v", r.n, r.err)
	}
}

func TestBlockedReadIsCancelled(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "exec cat")
	for _, name := range []string{"stdout", "wait"} {
		f := g.open("exec/t/"+name, os.O_RDONLY)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := f.ReadAt(ctx, make([]byte, 10), 0)
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		f = g.open("exec/t/"+name, os.O_RDONLY|syscall.O_NONBLOCK)
		if _, err := f.Read(make([]byte, 10)); !errors.Is(err, fs.ErrAgain) {
			t.Errorf("%s without blocking: %v", name, err)
		}
	}
	if err := g.write("exec/t/stdin", "all of it"); err != nil {
		t.Fatal(err)
	}
	g.want("exec/t/stdout", "all of it")
}

func TestManyAtOnce(t *testing.T) {
	g := newGuest(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			name := fmt.Sprint("n", i)
			g.exec(name, fmt.Sprintf("sh echo out %d; echo err %d >&2; exit %d", i, i, i))
			g.want("exec/"+name+"/stdout", fmt.Sprintf("out %d\n", i))
			g.want("exec/"+name+"/stderr", fmt.Sprintf("err %d\n", i))
			if s := g.status(name); s != fmt.Sprint(i) {
				t.Errorf("%s ended with %s", name, s)
			}
			if err := g.rmdir(name); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestSlowReader sends 64 MiB through a command with a small spool.
func TestSlowReader(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "limit 1MiB", "exec cat")
	const size = 64 << 20
	in := g.open("exec/t/stdin", os.O_WRONLY)
	var send sync.WaitGroup
	send.Go(func() {
		defer in.Close()
		r := rand.NewChaCha8([32]byte{1})
		if _, err := io.CopyN(in, r, size); err != nil {
			t.Error(err)
		}
	})
	out := g.open("exec/t/stdout", os.O_RDONLY)
	want := rand.NewChaCha8([32]byte{1})
	got, expect := make([]byte, 100<<10), make([]byte, 100<<10)
	total := 0
	for {
		n, err := out.Read(got)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		want.Read(expect[:n])
		if !bytes.Equal(got[:n], expect[:n]) {
			t.Fatalf("differs after %d", total)
		}
		total += n
		if held := g.a.command("t").stdout.held(); held > 1<<20 {
			t.Fatalf("holds %d bytes", held)
		}
	}
	send.Wait()
	if total != size {
		t.Errorf("%d bytes came", total)
	}
}

// held is how many bytes a spool keeps.
func (w *Spool) held() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.end - w.base
}

func TestTerminal(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "tty 30 90", "sh stty size; echo err >&2; read x; stty size; echo got $x; test -t 0 && test -t 2 && echo $TERM")
	out := g.open("exec/t/stdout", os.O_RDONLY)
	expect(t, out, "30 90\r\nerr\r\n")
	if err := g.write("exec/t/ctl", "tty 40 100\n"); err != nil {
		t.Fatal(err)
	}
	if err := g.write("exec/t/stdin", "hello\n"); err != nil {
		t.Fatal(err)
	}
	expect(t, out, "hello\r\n40 100\r\ngot hello\r\nxterm-256color\r\n")
	if s := g.status("t"); s != "0" {
		t.Errorf("status %s", s)
	}
	g.want("exec/t/stderr", "")
}

func TestTerminalEOF(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "tty 24 80")
	if err := g.write("exec/t/stdin", "x"); !errors.Is(err, fs.ErrBusy) {
		t.Errorf("write before exec: %v", err)
	}
	if err := g.write("exec/t/ctl", "exec cat\n"); err != nil {
		t.Fatal(err)
	}
	out := g.open("exec/t/stdout", os.O_RDONLY)
	g.write("exec/t/stdin", "line\n") // closing does not end a terminal's input
	expect(t, out, "line\r\nline\r\n")
	if err := g.write("exec/t/ctl", "eof\n"); err != nil {
		t.Fatal(err)
	}
	if s := g.status("t"); s != "0" {
		t.Errorf("status %s", s)
	}
	if err := g.write("exec/t/ctl", "tty 0 0\n"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("no size: %v", err)
	}
}

// TestTerminalHangup ends what leads a terminal while others have it.
func TestTerminalHangup(t *testing.T) {
	for name, line := range map[string]string{
		"background": "sleep 600 & echo last",
		"stopped":    "sh -c 'kill -STOP $$' & echo last",
		"writes":     "while :; do echo more; done & echo last",
		"closed":     "sleep 600 & echo last; exec </dev/null >&0 2>&0; exit",
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuest(t)
			g.exec("t", "tty 24 80", "sh trap '' HUP; "+line)
			if text := g.read("exec/t/stdout"); !strings.Contains(text, "last\r\n") {
				t.Errorf("stdout is %q", text)
			}
			if s := g.status("t"); s != "0" {
				t.Errorf("status %s", s)
			}
			g.write("exec/t/ctl", "kill\n") // if there is one left
		})
	}
}

// expect reads until text has come, and returns what came up to there.
func expect(t testing.TB, r io.Reader, text string) string {
	t.Helper()
	var got strings.Builder
	p := make([]byte, 1<<10)
	for !strings.Contains(got.String(), text) {
		n, err := r.Read(p)
		got.Write(p[:n])
		if err != nil {
			t.Fatalf("got %q, then %v; want %q", &got, err, text)
		}
	}
	before, _, _ := strings.Cut(got.String(), text)
	return before + text
}

func TestUser(t *testing.T) {
	need.Root(t)
	g := newGuest(t)
	g.exec("n", "user 12345", "dir /", "sh id -u; id -g; id -G; echo $HOME $USER")
	g.want("exec/n/stdout", "12345\n12345\n12345\n/ 12345\n")
	g.exec("g", "user 12345:6789", "dir /", "sh id -u; id -g; id -G")
	g.want("exec/g/stdout", "12345\n6789\n6789\n")
	g.exec("r", "user nobody", "dir /", "sh id -un; echo $USER")
	g.want("exec/r/stdout", "nobody\nnobody\n")
	dir := filepath.Join(t.TempDir(), "closed")
	os.Mkdir(dir, 0o700)
	g.exec("d", "user 12345", "dir "+dir)
	if err := g.write("exec/d/ctl", "exec true\n"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("in a closed folder: %v", err)
	}
}
