package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/aggd/wire"
	"hutch/fs/duplex"
)

// A rig is a Host and a Client, and what programs say.
type rig struct {
	*Host
	*Client
	conn *net.UnixConn // of the Host

	mu  sync.Mutex
	log bytes.Buffer
}

func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

// said returns what the log has.
func (r *rig) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

func begin(t testing.TB) *rig {
	return beginWith(t, nil)
}

func beginWith(t testing.TB, resolve wire.Resolver) *rig {
	r := &rig{}
	r.Host = NewHost(r, nil)
	r.Resolve = resolve
	ours, theirs, err := duplex.Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(theirs.Fd()))
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	if r.Client, err = NewClient(uintptr(fd)); err != nil {
		t.Fatal(err)
	}
	r.conn = ours
	var served sync.WaitGroup
	served.Go(func() { r.Serve(context.Background(), ours) })
	t.Cleanup(func() {
		r.Close()
		served.Wait()
		if left := r.Processes(); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
	})
	return r
}

// define defines a shell's line as the server s, and returns its key.
func (r *rig) define(line string) string {
	return r.Define([]wire.Server{{Name: "s", Program: wire.Program{Command: "sh", Args: []string{"-c", line}}}})[0].Descriptor
}

func (r *rig) start(t testing.TB, line string) *Program {
	t.Helper()
	p, err := r.Start(t.Context(), r.define(line))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.In.Close(); p.Out.Close() })
	return p
}

func TestStart(t *testing.T) {
	r := begin(t)
	p := r.start(t, `printf 'forged\rs: line\033[2J\n' >&2; echo complaint >&2; cat; exit 3`)
	fmt.Fprintln(p.In, "hello")
	p.In.Close()
	if b, err := io.ReadAll(p.Out); string(b) != "hello\n" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	<-p.Ended()
	if how := p.How(); how != "(exit status 3): forged?s: line?[2J / complaint" {
		t.Error(how)
	}
	if got := r.said(); got != "s: forged?s: line?[2J\ns: complaint\n" {
		t.Errorf("log %q", got)
	}
}

// TestLastWords has the last words be cut off where a character begins.
func TestLastWords(t *testing.T) {
	c := NewComplaints("s", io.Discard, nil)
	fmt.Fprintln(c, strings.Repeat("é", maxWords)+"!")
	if words := c.Last(); len(words) > maxWords || words != strings.Repeat("é", (maxWords-1)/2)+"!" {
		t.Errorf("%q", words)
	}
	c.Write([]byte("\n" + strings.Repeat("word ", maxWords)))
	if words := c.Last(); !strings.HasPrefix(words, "word ") {
		t.Errorf("the last words are cut within one: %q", words)
	}
}

// TestIdle has what tells of no reason be not among the last words, and be logged.
func TestIdle(t *testing.T) {
	const said = `node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module 'x'
    at node:internal/main/run_main_module:28:49
    at async Promise.all (index 1)
    at Function.load (node:internal/modules/cjs/loader:1051:27) {
  code: 'MODULE_NOT_FOUND'
},
gyp ERR! stack Error: not found: make
gyp ERR! stack     at getNotFoundError (/x/which.js:10:17)
gyp ERR! System Linux
gyp ERR! not ok 
npm error code 1
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error path /x
npm error command failed
npm error command sh -c node-gyp rebuild
npm error Log files were not written due to the config logs-max=0
    at last it ends
`
	var log bytes.Buffer
	c := NewComplaints("s", &log, nil)
	c.Write([]byte(said))
	const want = "Error: Cannot find module 'x' / code: 'MODULE_NOT_FOUND' / gyp ERR! stack Error: not found: make / npm error path /x / at last it ends"
	if words := c.Last(); words != want {
		t.Errorf("the last words are %q", words)
	}
	if got, all := strings.Count(log.String(), "\n"), strings.Count(said, "\n")-1; got != all {
		t.Errorf("%d lines of %d are logged", got, all)
	}
}

func TestRefused(t *testing.T) {
	r := begin(t)
	key := r.define("exit")
	r.define("exit 1") // and not the first any more
	missing := r.Define([]wire.Server{{Name: "s", Program: wire.Program{Command: "no-such-program"}}})[0].Descriptor
	for key, want := range map[string]string{key: "not defined any more", "": "not defined any more", missing: `no program "no-such-program"`} {
		if _, err := r.Start(t.Context(), key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestDefine keeps the key of a program that did not change, and tells the
// aggregator nothing of any.
func TestDefine(t *testing.T) {
	h := NewHost(io.Discard, nil)
	server := wire.Server{Name: "s", Program: wire.Program{Command: "c", Env: map[string]string{"TOKEN": "t"}}}
	args := append(make([]string, 0, 10), "a", "kept")
	server.Args = args[:1]
	one := h.Define([]wire.Server{server, {Name: "web", URL: "http://x"}})
	if args[1] != "kept" {
		t.Errorf("Define wrote %q behind the arguments", args[1])
	}
	two := h.Define([]wire.Server{server})
	server.Env = map[string]string{"TOKEN": "u"}
	three := h.Define([]wire.Server{server})
	if one[0].Descriptor == "" || one[1].Descriptor != "" || two[0].Descriptor != one[0].Descriptor || three[0].Descriptor == one[0].Descriptor {
		t.Errorf("%+v %+v %+v", one, two, three)
	}
	if line, _ := json.Marshal(one); bytes.Contains(line, []byte("TOKEN")) {
		t.Errorf("told %s", line)
	}
}

// TestStop ends programs that heed less and less.
func TestStop(t *testing.T) {
	for _, line := range []string{"cat", "exec sleep 1000", "trap '' TERM; sleep 1000 & while :; do wait; done"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			p := begin(t).start(t, line)
			p.In.Close()
			p.Stop()
			p.Stop()
			select {
			case <-p.Ended():
			case <-time.After(time.Minute):
				t.Error("it goes on")
			}
		})
	}
}

// TestGrace has a program that takes no SIGTERM be killed when the Host says.
func TestGrace(t *testing.T) {
	r := begin(t)
	r.Grace = time.Millisecond
	p := r.start(t, `trap '' TERM; echo; while :; do sleep 1000; done`)
	p.Out.Read(make([]byte, 1))
	began := time.Now()
	p.Stop()
	<-p.Ended()
	if d := time.Since(began); d < inputGrace || d > inputGrace+termGrace {
		t.Errorf("it took %v", d)
	}
}

// TestHostGone ends what waits when hutchd is gone, and TestClientGone, by its
// cleaning up, what runs when the aggregator is.
func TestHostGone(t *testing.T) {
	r := begin(t)
	p := r.start(t, "cat")
	r.conn.Close()
	<-p.Ended()
	if how := p.How(); how != "(hutchd is gone)" {
		t.Error(how)
	}
	if _, err := r.Start(t.Context(), "1"); err == nil {
		t.Error("started by nobody")
	}
}

func TestClientGone(t *testing.T) {
	t.Parallel()
	r := begin(t)
	r.start(t, "exec sleep 1000")
	r.start(t, "trap '' TERM; while :; do sleep 1000; done")
	if n := len(r.Processes()); n != 2 {
		t.Errorf("%d programs", n)
	}
}

// TestMany starts no more than may run at once.
func TestMany(t *testing.T) {
	h := NewHost(io.Discard, nil)
	key := h.Define([]wire.Server{{Name: "s", Program: wire.Program{Command: "sh"}}})[0].Descriptor
	for i := range uint64(maxPrograms) {
		h.running[i] = &running{}
	}
	if err := h.start(t.Context(), order{Start: key, ID: maxPrograms}, nil); err == nil || !strings.Contains(err.Error(), "at once") {
		t.Error(err)
	}
	if err := h.start(t.Context(), order{Start: key, ID: 1}, nil); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Error(err)
	}
}

// FuzzServe has an aggregator that was taken over say anything.
func FuzzServe(f *testing.F) {
	f.Add([]byte(`{"start":"1","id":1}` + "\n" + `{"stop":true,"id":1}` + "\n"))
	f.Add([]byte(`{"start":"1","id":1}` + "\n" + `{"start":"1","id":1}` + "\n{"))
	f.Add([]byte(`{"start":"1","id":1}` + "\n" + `{"dial":1,"id":2}` + "\n"))
	f.Add(bytes.Repeat([]byte("x"), maxOrder+2))
	f.Fuzz(func(t *testing.T, said []byte) {
		if bytes.Count(said, []byte("start")) > 8 || bytes.Contains(said, []byte(`\u`)) {
			return // the rate of starts takes time
		}
		h := NewHost(io.Discard, nil)
		h.Define([]wire.Server{{Name: "s", Program: wire.Program{Command: "cat"}}})
		ours, theirs, err := duplex.Pair()
		if err != nil {
			t.Fatal(err)
		}
		var served sync.WaitGroup
		served.Go(func() { h.Serve(context.Background(), ours) })
		theirs.Write(said)
		go io.Copy(io.Discard, theirs)
		syscall.Shutdown(int(theirs.Fd()), syscall.SHUT_WR)
		served.Wait()
		theirs.Close()
		if left := h.Processes(); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
	})
}

// TestShown has a secret be across the place where a line is cut, and where the last words
// begin: nothing of it is logged or told.
func TestShown(t *testing.T) {
	const secret = "topsecretvalue123456"
	show := func(text string, max int) string {
		text = strings.ReplaceAll(text, secret, "*")
		return text[:min(len(text), max)]
	}
	for _, before := range []int{maxLine - 13, maxLine - len(secret), maxLine} {
		var log bytes.Buffer
		c := NewComplaints("s", &log, show)
		c.Write([]byte(strings.Repeat("x", before) + secret[:5]))
		c.Write([]byte(secret[5:] + "\n"))
		c.Write([]byte(secret + strings.Repeat("y", maxWords-10) + "\n"))
		for _, text := range []string{log.String(), c.Last()} {
			for part := range len(secret) - 4 {
				if strings.Contains(text, secret[part:part+4]) {
					t.Fatalf("%d bytes before it: %q is shown", before, secret[part:part+4])
				}
			}
		}
	}
	c := NewComplaints("s", io.Discard, show)
	for range 3 {
		c.Write(bytes.Repeat([]byte("x"), maxKept))
	}
	if len(c.begun) != maxKept {
		t.Errorf("%d bytes of a line are kept", len(c.begun))
	}
}
