package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/fs/duplex"
)

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	in := "one\n\r\n  \ntwo\r\n" + `{"id":7,"x":"` + long + `"}` + "\nthree\n" + `{"x":"` + long + `","id":"q"}` + "\nfour"
	r := NewReader(strings.NewReader(in), 1000)
	var got []string
	for {
		line, err := r.Read()
		var e *TooLong
		switch {
		case errors.As(err, &e):
			got = append(got, fmt.Sprintf("too long %s %d", e.ID, e.Size))
			continue
		case err == io.EOF:
			want := []string{"one", "two", "too long 7 307215", "three", `too long "q" 307217`, "four"}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q, want %q", got, want)
			}
			return
		case err != nil:
			t.Fatal(err)
		}
		got = append(got, string(line))
	}
}

func TestReaderAtLimit(t *testing.T) {
	r := NewReader(strings.NewReader(strings.Repeat("a", 100000)+"\n"+strings.Repeat("b", 100001)+"\n"), 100000)
	if line, err := r.Read(); len(line) != 100000 || err != nil {
		t.Error(len(line), err)
	}
	var e *TooLong
	if _, err := r.Read(); !errors.As(err, &e) {
		t.Error(err)
	}
}

func TestServerJSON(t *testing.T) {
	var all []Server
	err := json.Unmarshal([]byte(`[{"name":"a","url":"u","idle_timeout":90},{"name":"b","enabled":false,"command":"c","call_timeout":"1m30s"}]`), &all)
	if err != nil || !all[0].Enabled || all[1].Enabled || all[0].IdleTimeout != Duration(90*time.Second) || all[1].CallTimeout != all[0].IdleTimeout {
		t.Errorf("%+v %v", all, err)
	}
	if all[0].Stdio() || all[0].UnsupportedStdio || !all[1].UnsupportedStdio {
		t.Error("stdio: one that the host does not start")
	}
	all[1].Program, all[1].Descriptor = Program{Command: "c", Env: map[string]string{"TOKEN": "x"}}, "7"
	if !all[1].Stdio() {
		t.Error("stdio: one that the host starts")
	}
	line, _ := json.Marshal(all[1])
	if strings.Contains(string(line), "TOKEN") {
		t.Errorf("the aggregator would be told %s", line)
	}
	var back Server
	if err := json.Unmarshal(line, &back); err != nil || back.CallTimeout != all[1].CallTimeout || back.Enabled {
		t.Errorf("%s %v", line, err)
	}
	if json.Unmarshal([]byte(`{"idle_timeout":"soon"}`), &back) == nil {
		t.Error("soon is no duration")
	}
}

func TestClientKey(t *testing.T) {
	key := func(s string) string {
		k, err := ClientParams{Capabilities: json.RawMessage(s)}.Key()
		if err != nil {
			t.Error(err)
		}
		return k
	}
	if key("") != "" || key("{}") != "" || key("null") != "" {
		t.Error("nothing has a key")
	}
	if key(`{"a":{},"b":1}`) != key(` {"b":1, "a":{}}`) || key(`{"a":{}}`) == key(`{"b":{}}`) {
		t.Error("keys do not tell sets apart")
	}
	if _, err := (ClientParams{Capabilities: json.RawMessage(`[1]`)}).Key(); err == nil {
		t.Error("an array is no set")
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if err := w.Write(fmt.Append(nil, "line ", i%10)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := strings.Count(out.String(), "\n"); n != 50 || len(out.String()) != 50*7 {
		t.Errorf("%d lines: %q", n, out.String())
	}
	w = NewWriter(broken{})
	if w.Write([]byte("x")) == nil || w.Write([]byte("x")) == nil {
		t.Error("no error")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }
func (broken) Close() error              { return nil }

// TestQueue puts more than the pipe takes before anybody reads.
func TestQueue(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	q := NewQueue(w)
	line := []byte(strings.Repeat("y", 1000))
	const n = 500
	for range n {
		if err := q.Put(append(line, 'z')); err != nil {
			t.Fatal(err)
		}
	}
	q.Close()
	if q.Put(line) == nil {
		t.Error("put after the end")
	}
	got, err := io.ReadAll(r)
	<-q.Done()
	if err != nil || string(got) != strings.Repeat(string(line)+"z\n", n) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestQueueStuck has nobody read at all.
func TestQueueStuck(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	q := NewQueue(w)
	line := make([]byte, 1<<20)
	for range 100 {
		if err = q.Put(line); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrStuck) {
		t.Error(err)
	}
	r.Close()
	<-q.Done()
	if err := q.Put(line); err == nil || errors.Is(err, ErrStuck) {
		t.Error(err)
	}
}

func TestQueueConcurrent(t *testing.T) {
	r, w := io.Pipe()
	q := NewQueue(w)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 100 {
				q.Put([]byte("0123456789"))
			}
		})
	}
	go func() {
		all.Wait()
		q.Close()
	}()
	got, _ := io.ReadAll(r)
	if string(got) != strings.Repeat("0123456789\n", 2000) {
		t.Errorf("%d bytes", len(got))
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), 2)
	f.Add([]byte(`{"id":1,"x":"`+strings.Repeat("x", 200)+"\"}\n{}\n"), 50)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		if limit < 0 || limit > 1<<16 {
			return
		}
		r := NewReader(bytes.NewReader(in), limit)
		for lines := 0; ; lines++ {
			line, err := r.Read()
			var e *TooLong
			if errors.As(err, &e) {
				continue
			}
			if err != nil {
				if err != io.EOF {
					t.Fatal(err)
				}
				return
			}
			if len(line) == 0 || len(line) > limit+2 || bytes.ContainsRune(line, '\n') {
				t.Fatalf("line %q, limit %d", line, limit)
			}
			if lines > len(in) {
				t.Fatal("more lines than bytes")
			}
		}
	})
}

func FuzzServers(f *testing.F) {
	f.Add([]byte(`[{"name":"github","url":"https://x/","headers":{"a":"b"},"enabled":true,"idle_timeout":"1s"}]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var all []Server
		if json.Unmarshal(line, &all) != nil {
			return
		}
		again, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		var back []Server
		if err := json.Unmarshal(again, &back); err != nil {
			t.Fatalf("%v: %s", err, again)
		}
	})
}

// TestTake sends a pipe that blocks: what is taken must not.
func TestTake(t *testing.T) {
	conn, f, err := duplex.Pair()
	if err != nil {
		t.Fatal(err)
	}
	from := NewSocket(conn, 100)
	defer from.Close()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	to, err := InheritSocket(uintptr(fd), 100)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Drop()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := from.Send("x", int(w.Fd())); err != nil { // and Fd lets it block
		t.Fatal(err)
	}
	w.Close()
	var line string
	if err := to.Read(&line); err != nil || line != "x" {
		t.Fatal(line, err)
	}
	got, err := to.Take()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if err := got.SetWriteDeadline(time.Now()); err != nil {
		t.Errorf("a deadline: %v", err)
	}
	if _, err := to.Take(); err == nil {
		t.Error("took what had not come")
	}
}
