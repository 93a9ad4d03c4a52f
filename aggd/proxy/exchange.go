package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/trace"
	"hutch/aggd/wire"
)

// An exchange is one request of the guest and what came of it.
type exchange struct {
	s      *Server
	policy *policy
	verdict
	event          wire.NetEvent
	sent, received atomic.Int64

	cutMu sync.Mutex // guards cut
	cut   string     // why it was broken off
}

func (s *Server) begin(r *http.Request, p *policy) *exchange {
	x := &exchange{s: s, policy: p}
	x.event = wire.NetEvent{ID: s.ids.Add(1), Time: time.Now(), Method: printable(r.Method), Trace: traced(r.Header)}
	if r.Method != http.MethodConnect {
		x.event.Path = r.URL.EscapedPath()
	}
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		x.event.Process = c.program
	}
	return x
}

// traced returns the id of the trace that a request is part of, or of a new one.
// A context that is not valid does not get any further.
func traced(h http.Header) string {
	c, ok := trace.Parse(h.Get(trace.Parent))
	if !ok || len(h.Values(trace.Parent)) > 1 {
		c = trace.New()
		h.Del(trace.Parent)
		h.Del(trace.State)
	}
	if state := h.Values(trace.State); len(state) > 0 && !trace.ValidState(strings.Join(state, ",")) {
		h.Del(trace.State)
	}
	return c.ID()
}

// tell writes the exchange's line.
func (x *exchange) tell() {
	e := &x.event
	e.Decision, e.Rule, e.Reason = x.decision, x.rule, x.reason
	line, err := json.Marshal(e)
	if err != nil { // it is plain text and numbers
		return
	}
	x.s.out.Write(line)
}

// end writes the line of the exchange with what came of it.
func (x *exchange) end() {
	e := &x.event
	e.Ended = true
	e.Sent, e.Received = x.sent.Load(), x.received.Load()
	e.Duration = float64(time.Since(e.Time).Microseconds()) / 1000
	x.cutMu.Lock()
	if x.cut != "" && x.decision == wire.Allowed {
		x.decision, x.reason = wire.Errored, x.cut
	}
	x.cutMu.Unlock()
	x.tell()
}

// breakOff notes why the exchange is broken off; the first reason is kept.
func (x *exchange) breakOff(format string, args ...any) error {
	x.cutMu.Lock()
	defer x.cutMu.Unlock()
	if x.cut == "" {
		x.cut = fmt.Sprintf(format, args...)
	}
	return errors.New(x.cut)
}

// refuse answers the guest with the verdict.
func (x *exchange) refuse(w http.ResponseWriter, status int) {
	x.event.Status = status
	text := x.text()
	if x.event.Method == http.MethodConnect {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			// Most programs show nothing of a refused tunnel but the first line.
			io.WriteString(c, raw(status, "hutch: "+printable(x.reason), text))
			c.Close()
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Connection", "close")
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// text tells the guest what was refused, by which rule, and what to do.
func (x *exchange) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "hutch: %s\n", x.reason)
	if x.event.Host != "" {
		fmt.Fprintf(&b, "host: %s\n", joinPort(x.event.Host, x.event.Port))
	}
	if x.rule != "" {
		fmt.Fprintf(&b, "rule: %s\n", x.rule)
	}
	name := x.event.Host
	if p := x.event.Port; p != 80 && p != 443 {
		name = joinPort(x.event.Host, p)
	}
	file := "[network] of profiles/" + x.policy.profile + ".toml"
	switch kind, _, _ := strings.Cut(x.rule, " "); {
	case x.policy.advice != "" && slices.Contains([]string{"default", "port", "block", "private"}, kind):
		fmt.Fprintf(&b, "to do: %s\n", x.policy.advice)
	case kind == "default", kind == "port":
		fmt.Fprintf(&b, "to do: have %q added to allow in %s, and reload written to hutch's ctl\n", name, file)
	case kind == "block":
		fmt.Fprintf(&b, "to do: do without it, or have it taken out of block in %s\n", file)
	case kind == "private":
		fmt.Fprintf(&b, "to do: have %q added to private in %s, and reload written to hutch's ctl\n", x.event.Host, file)
	}
	return b.String()
}

// raw is a whole answer, for where there is no ResponseWriter.
func raw(status int, reason, text string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, reason, len(text), text)
}

func raw503(why string) string {
	return raw(http.StatusServiceUnavailable, "hutch: "+why, "hutch: "+why+"\n")
}

// printable returns s with what may not stand in the head of an answer replaced.
func printable(s string) string {
	if len(s) > 256 {
		s = s[:256]
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
}

// A meter counts what is read.
type meter struct {
	io.ReadCloser
	x     *exchange
	count *atomic.Int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	if over := m.x.countTo(m.count, n); over != nil {
		return n, over
	}
	return n, err
}

// countTo counts n bytes, and breaks the exchange off at the limit.
func (x *exchange) countTo(count *atomic.Int64, n int) error {
	if count.Add(int64(n)) <= x.policy.maxBytes {
		return nil
	}
	return x.breakOff("cut off after %d bytes: max_bytes in [network] of the profile %s", x.policy.maxBytes, x.policy.profile)
}
