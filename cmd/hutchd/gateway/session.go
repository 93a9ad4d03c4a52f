package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/fs"
	"hutch/relay"
	"hutch/relay/agent"
)

// A Session is an MCP session that a client of the tree has. A line sent is what
// a program in the guest would say, and goes the same way, by a relay to the
// endpoint; what comes back is kept in Out. The session ends when its input has
// ended and all is answered, and is there until it is dropped; an anonymous one is
// dropped when the last of its holders lets go.
type Session struct {
	ID   uint64 // no other object's
	Name string
	Out  *agent.Spool

	principal string // who made it

	Held
	g      *Gateway
	ctx    context.Context // ends when the session or whose it is is removed
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing more comes out, and no call is under way
	served sync.WaitGroup

	turn  chan struct{} // holds a token: whoever has it is at a line
	lines chan line     // on their way to the relay
	eof   chan struct{} // closed when no more are taken
	ended sync.Once     // closes eof

	taken atomic.Uint64 // lines that came in
	calls atomic.Uint64 // that ctl made
	last  atomic.Uint64 // the number of the last of them that went out

	joined chan struct{} // holds a token: whoever has it has Data
}

const (
	maxTreeSessions = 64      // of a sandbox
	maxOut          = 4 << 20 // bytes of out that are kept, read or not
)

// A line is a message for the endpoint, with its newline, or a part of one.
type line struct {
	text    []byte
	greet   bool // initialize has to be said before
	greeted bool // it is from who says initialize by itself
}

// Asker is what the ledger shows as the process of calls made through the tree.
const Asker = "hutch"

// callID is the id of the nth call that ctl makes.
func callID(n uint64) string { return fmt.Sprintf("ctl-%d", n) }

// CloseInput ends the input.
func (s *Session) CloseInput() { s.ended.Do(func() { close(s.eof) }) }

// send hands a line to the relay.
func (s *Session) send(ctx context.Context, l line) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.finish()
	return s.put(ctx, l)
}

// begin waits until nobody else is at a line; finish lets others begin.
func (s *Session) begin(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-s.eof:
		return s.closed()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Session) finish() { <-s.turn }

// put hands the relay a line, or a part of one.
func (s *Session) put(ctx context.Context, l line) error {
	if over(s.eof) {
		return s.closed()
	}
	select {
	case s.lines <- l:
		s.taken.Add(uint64(bytes.Count(l.text, newline)))
		return nil
	case <-s.eof:
		return s.closed()
	case <-ctx.Done():
		return ctx.Err()
	}
}

var newline = []byte("\n")

func (s *Session) closed() error {
	return fmt.Errorf("%w: the input of session %q has ended", fs.ErrPipe, s.Name)
}

// run relays until the input has ended and all is answered.
func (s *Session) run() {
	defer close(s.done)
	defer s.Out.Finish()
	defer s.CloseInput()
	stop := context.AfterFunc(s.ctx, s.Out.Abandon)
	defer stop()
	if err := relay.Run(s.ctx, &input{s: s}, &output{to: s.Out}, s.dial, Asker, false); err != nil && s.ctx.Err() == nil {
		s.g.service.Log.Warn("MCP session ended", s.g.cfg.Kind, s.g.cfg.Name(), "session", s.Name, "err", err)
	}
	s.served.Wait()
}

// dial connects the relay to the endpoint.
func (s *Session) dial(context.Context) (net.Conn, error) {
	ours, its := net.Pipe()
	s.served.Add(1)
	if !s.g.Later(func(context.Context) error {
		defer s.served.Done()
		return s.g.MCP.ServeFor(s.ctx, its, s.principal)
	}) {
		s.served.Done()
		return nil, s.g.gone()
	}
	return ours, nil
}

// hello is what a session says for a client that only calls.
var hello = bytes.Join([][]byte{
	jsonrpc.Message{ID: []byte(helloID), Method: "initialize", Params: []byte(`{"protocolVersion":"` + jsonrpc.Newest +
		`","capabilities":{},"clientInfo":{"name":"hutch","version":"` + fs.Version + `"}}`)}.Encode(),
	jsonrpc.Notification("notifications/initialized", nil),
	nil,
}, []byte("\n"))

const helloID = `"hutch-initialize"`

// An input is a session's lines as the relay reads them.
type input struct {
	s       *Session
	rest    []byte
	greeted bool // initialize was said
}

func (in *input) Read(p []byte) (int, error) {
	if len(in.rest) == 0 {
		select {
		case l := <-in.s.lines:
			in.take(l)
		case <-in.s.eof:
			return 0, io.EOF
		case <-in.s.ctx.Done():
			return 0, in.s.ctx.Err()
		}
	}
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}

func (in *input) take(l line) {
	if l.greet && !in.greeted {
		in.rest = bytes.Clone(hello)
	}
	in.greeted = in.greeted || l.greet || l.greeted
	in.rest = append(in.rest, l.text...)
}

// An output is what the relay has for the client, but for the answer to what
// the session said itself.
type output struct {
	to     *agent.Spool
	hiding bool // until the line ends
}

var ownAnswer = bytes.TrimSuffix(jsonrpc.Message{ID: []byte(helloID)}.Encode(), []byte("}"))

func (o *output) Write(p []byte) (int, error) {
	if o.hiding || bytes.HasPrefix(p, ownAnswer) {
		o.hiding = !bytes.HasSuffix(p, []byte("\n"))
		return len(p), nil
	}
	return o.to.Write(p)
}

// Status returns open, ending or ended, and then key value lines.
func (s *Session) Status() string {
	state := "open"
	switch {
	case over(s.done):
		state = "ended"
	case over(s.eof):
		state = "ending"
	}
	text := fmt.Sprintf("%s\nin %d\nout %s\n", state, s.taken.Load(), s.Out.Extent())
	if n := s.last.Load(); n > 0 {
		text += "call " + callID(n) + "\n"
	}
	return text
}

// Call has the session call a tool, as a client would that has just begun, or
// as the one that said initialize itself.
func (s *Session) Call(ctx context.Context, tool string, args json.RawMessage) error {
	n := s.calls.Add(1)
	params, err := json.Marshal(map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return err
	}
	text := jsonrpc.Message{ID: rawjson.Quote(callID(n)), Method: "tools/call", Params: params}.Encode()
	if err := rawjson.Check(text); err != nil {
		return fmt.Errorf("%w: arguments of %s: %w", fs.ErrInvalid, tool, err)
	}
	if err := s.send(ctx, line{text: append(text, '\n'), greet: true}); err != nil {
		return err
	}
	s.last.Store(n)
	return nil
}

// Send sends a message. What is no JSON is the sender's mistake; what is no
// request is for the endpoint to answer.
func (s *Session) Send(ctx context.Context, text []byte) error {
	if err := rawjson.Check(text); err != nil {
		return fmt.Errorf("%w: not JSON, a message a line: %w", fs.ErrInvalid, err)
	}
	return s.send(ctx, line{text: append(text, '\n'), greeted: rawjson.GetString(text, "method") == "initialize"})
}

// over says whether c is closed.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
