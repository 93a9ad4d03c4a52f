package aggd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/aggd/local"
	"hutch/aggd/programs"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs/duplex"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("AGGD_TEST_SERVER"); mode == "locald" {
		s, err := local.New(local.Config{AllowPrivate: strings.Split(os.Getenv("LOCALD_ALLOW_PRIVATE"), ",")})
		if err == nil {
			err = s.Serve(context.Background(), os.Stdin, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	} else if mode == "mcp-go" {
		os.Exit(serveMCPGo())
	} else if mode != "" {
		serveStdio(mode)
		return
	}
	os.Exit(m.Run())
}

// host speaks with an aggregator in process, as a parent would.
type host struct {
	t        testing.TB
	in       *io.PipeWriter
	done     chan error
	log      *lockedBuffer
	programs *programs.Host
	unread   chan string // notifications and requests, in order

	mu      sync.Mutex
	last    int
	waiting map[string]chan string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// patience is the longest a test waits for what must come.
const patience = time.Minute

func start(t testing.TB, cfg Config, servers ...wire.Server) *host {
	return startWith(t, cfg, nil, servers...)
}

// startWith is start where what is in a sandbox is started by elsewhere.
func startWith(t testing.TB, cfg Config, elsewhere programs.Starter, servers ...wire.Server) *host {
	ir, iw := io.Pipe()
	or, ow := io.Pipe()
	h := &host{t: t, in: iw, done: make(chan error, 1), log: &lockedBuffer{}, unread: make(chan string, 100000), waiting: make(map[string]chan string)}
	cfg.Log = h.log
	if cfg.ListWait == 0 {
		cfg.ListWait = patience
	}
	cfg.EndWait = patience
	h.programs = programs.NewHost(h.log, elsewhere)
	ours, theirs, err := duplex.Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(theirs.Fd()))
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Programs, err = programs.NewClient(uintptr(fd)); err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { h.programs.Serve(context.Background(), ours) })
	go func() {
		err := Run(context.Background(), cfg, ir, ow)
		cfg.Programs.Close()
		served.Wait()
		ir.Close()
		ow.Close()
		h.done <- err
	}()
	go h.read(wire.NewReader(or, 64<<20))
	for i := range servers {
		servers[i].Enabled = true
	}
	patient(servers)
	line, err := rawjson.Encode(h.programs.Define(servers))
	if err != nil {
		t.Fatal(err)
	}
	h.write(string(line))
	t.Cleanup(func() {
		h.write(`{"id":"bye","method":"shutdown"}`)
		h.in.Close()
		select {
		case err := <-h.done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the aggregator does not end")
		}
		if t.Failed() {
			t.Log(h.log)
		}
	})
	return h
}

// patient gives servers without a limit of their own the time to connect that a
// test has.
func patient(servers []wire.Server) {
	for i := range servers {
		if servers[i].ConnectTimeout == 0 {
			servers[i].ConnectTimeout = wire.Duration(patience)
		}
	}
}

func (h *host) read(r *wire.Reader) {
	for {
		line, err := r.Read()
		if err != nil {
			return
		}
		if !json.Valid(line) {
			h.t.Errorf("not JSON: %.200s", line)
			continue
		}
		id := string(rawjson.Get(line, "id"))
		h.mu.Lock()
		to := h.waiting[id]
		delete(h.waiting, id)
		h.mu.Unlock()
		if to != nil {
			to <- string(line)
		} else if id == "" {
			h.unread <- string(line)
		}
	}
}

func (h *host) write(line string) { io.WriteString(h.in, line+"\n") }

// post makes a request and returns where its answer will come, and its id.
func (h *host) post(method, params string) (<-chan string, string) {
	h.mu.Lock()
	h.last++
	id := strconv.Itoa(h.last)
	answer := make(chan string, 1)
	h.waiting[id] = answer
	h.mu.Unlock()
	if params == "" {
		h.write(fmt.Sprintf(`{"id":%s,"method":%q}`, id, method))
	} else {
		h.write(fmt.Sprintf(`{"id":%s,"method":%q,"params":%s}`, id, method, params))
	}
	return answer, id
}

func (h *host) await(answer <-chan string) string {
	h.t.Helper()
	select {
	case line := <-answer:
		return line
	case <-time.After(patience):
		h.t.Fatalf("no answer\n%s", h.log)
		return ""
	}
}

func (h *host) ask(method, params string) string {
	h.t.Helper()
	answer, _ := h.post(method, params)
	return h.await(answer)
}

// rpc makes a request of MCP and returns the answer's line.
func (h *host) rpc(client, server, method, params string) string {
	h.t.Helper()
	return h.ask("rpc", rpcParams(client, server, method, params))
}

func rpcParams(client, server, method, params string) string {
	if params == "" {
		params = "{}"
	}
	return fmt.Sprintf(`{"client":%q,"server":%q,"method":%q,"params":%s}`, client, server, method, params)
}

// unasked returns the next notification or request.
func (h *host) unasked() string {
	h.t.Helper()
	select {
	case line := <-h.unread:
		return line
	case <-time.After(patience):
		h.t.Fatalf("nothing came\n%s", h.log)
		return ""
	}
}

// told returns when a notification or request has come that has text in it.
func (h *host) told(text string) {
	h.t.Helper()
	for !strings.Contains(h.unasked(), text) {
	}
}

// client declares capabilities and returns the key.
func (h *host) client(capabilities string) string {
	h.t.Helper()
	return rawjson.GetString([]byte(h.ask("client", `{"capabilities":`+capabilities+`}`)), "client")
}

// status returns the status of a server.
func (h *host) status(name string) wire.Status {
	h.t.Helper()
	var r struct{ Servers []wire.Status }
	line := h.ask("list_servers", "")
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		h.t.Fatalf("%v: %s", err, line)
	}
	for _, s := range r.Servers {
		if s.Name == name {
			return s
		}
	}
	h.t.Fatalf("no server %s in %s", name, line)
	return wire.Status{}
}

// awaitState asks until a server is in a state.
func (h *host) awaitState(name, state string) wire.Status {
	h.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if s := h.status(name); s.State == state {
			return s
		}
	}
	h.t.Fatalf("%s does not become %s, but is %+v\n%s", name, state, h.status(name), h.log)
	return wire.Status{}
}

// awaitLog asks until the log has a text.
func (h *host) awaitLog(text string) {
	h.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(h.log.String(), text); h.ask("list_servers", "") {
		if time.Now().After(end) {
			h.t.Fatalf("the log has no %s:\n%s", text, h.log)
		}
	}
}

func (h *host) tools() []string {
	h.t.Helper()
	names := []string{}
	for _, tool := range wire.Tools.Items([]byte(h.ask("list_tools", ""))) {
		names = append(names, tool.Name)
	}
	return names
}

func wants(t testing.TB, line string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(line, part) {
			t.Errorf("no %s in\n%.1000s", part, line)
		}
	}
}

func sameJSON(t testing.TB, what string, got, want []byte) {
	t.Helper()
	decode := func(raw []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Errorf("%s: %v: %.200s", what, err, raw)
		}
		return v
	}
	if !reflect.DeepEqual(decode(got), decode(want)) {
		t.Errorf("%s:\n got %.600s\nwant %.600s", what, got, want)
	}
}
