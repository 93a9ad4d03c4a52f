package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fake listens as QEMU does, and answers each command by what answer returns.
func fake(t *testing.T, answer func(name string, id json.RawMessage) string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "qmp")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, `{"QMP": {"version": {}, "capabilities": []}}`+"\r\n")
		in := bufio.NewScanner(c)
		for in.Scan() {
			var ask struct {
				Execute string
				ID      json.RawMessage
			}
			if err := json.Unmarshal(in.Bytes(), &ask); err != nil {
				t.Error(err)
				return
			}
			said := answer(ask.Execute, ask.ID)
			if said == "" {
				return
			}
			io.WriteString(c, said+"\r\n")
		}
	}()
	return path
}

func ok(result string, id json.RawMessage) string {
	return `{"return": ` + result + `, "id": ` + string(id) + `}`
}

func TestCommands(t *testing.T) {
	events := make(chan Event, 1)
	path := fake(t, func(name string, id json.RawMessage) string {
		switch name {
		case "qmp_capabilities", "getfd":
			return ok("{}", id)
		case "query-status":
			return `{"event": "STOP", "data": {"a": 1}}` + "\r\n" + ok(`{"status": "paused"}`, id)
		case "cont":
			return `{"error": {"class": "GenericError", "desc": "no"}, "id": ` + string(id) + `}`
		}
		return ""
	})
	q, err := Dial(t.Context(), path, func(e Event) { events <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var status struct{ Status string }
	if err := q.Do(t.Context(), "query-status", nil, &status); err != nil || status.Status != "paused" {
		t.Errorf("status %+v, %v", status, err)
	}
	if e := <-events; e.Name != "STOP" || string(e.Data) != `{"a": 1}` {
		t.Errorf("event %+v", e)
	}
	var refused *Error
	if err := q.Do(t.Context(), "cont", nil, nil); !errors.As(err, &refused) || refused.Desc != "no" {
		t.Errorf("refused: %v", err)
	}
	if err := q.Give(t.Context(), "f", os.Stdin); err != nil {
		t.Error(err)
	}
	if err := q.Do(t.Context(), "quit", nil, nil); !errors.Is(err, errGone) {
		t.Errorf("after the end: %v", err)
	}
	<-q.Done()
}

// TestGive passes a file and reads through it.
func TestGive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "qmp")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan string, 1)
	go func() {
		defer close(got)
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, `{"QMP": {}}`+"\n")
		for id := 1; id <= 2; id++ {
			line, rights := make([]byte, 512), make([]byte, 64)
			_, n, _, _, err := c.ReadMsgUnix(line, rights)
			if err != nil {
				return
			}
			if messages, _ := unix.ParseSocketControlMessage(rights[:n]); len(messages) == 1 {
				fds, _ := unix.ParseUnixRights(&messages[0])
				f := os.NewFile(uintptr(fds[0]), "given")
				text, _ := io.ReadAll(f)
				f.Close()
				got <- string(text)
			}
			io.WriteString(c, ok("{}", json.RawMessage{byte('0' + id)})+"\n")
		}
	}()
	q, err := Dial(t.Context(), path, func(Event) {})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	name := filepath.Join(t.TempDir(), "f")
	os.WriteFile(name, []byte("through"), 0o600)
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := q.Give(t.Context(), "f", f); err != nil {
		t.Fatal(err)
	}
	if text := <-got; text != "through" {
		t.Errorf("qemu read %q", text)
	}
}

func TestNonsenseEndsTheConnection(t *testing.T) {
	path := fake(t, func(name string, id json.RawMessage) string { return "what?" })
	if _, err := Dial(t.Context(), path, func(Event) {}); err == nil || !strings.Contains(err.Error(), "not understood") {
		t.Errorf("nonsense: %v", err)
	}
}

func TestGivingUp(t *testing.T) {
	block := make(chan struct{})
	path := fake(t, func(name string, id json.RawMessage) string {
		if name == "stop" {
			<-block
		}
		return ok("{}", id)
	})
	q, err := Dial(t.Context(), path, func(Event) {})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if err := q.Do(ctx, "stop", nil, nil); err != cause {
		t.Errorf("given up: %v", err)
	}
	close(block)
	if err := q.Do(t.Context(), "cont", nil, nil); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"return": {}, "id": 1}`, `{"event": "STOP", "data": {}}`, `{"error": {"class": "a", "desc": "b"}}`, `{"id": -1}`, `[]`, `{"id": "x"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parse(line)
		if err != nil {
			return
		}
		var result map[string]any
		m.into("x", &result)
	})
}
