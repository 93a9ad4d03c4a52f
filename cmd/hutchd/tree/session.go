package tree

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"hutch/aggd/rawjson"
	"hutch/fs"
	"hutch/relay"
	"hutch/relay/agent"
	client "hutch/relay/call"
)

// A session is an MCP session as files. A line of in is what a program in the
// guest would say, and goes the same way, by a relay to the VM's endpoint;
// what comes back is out. The session ends when its input has ended and all
// is answered, and its files stay until it is removed.
type session struct {
	vm     *vm
	id     uint64
	name   string
	ctx    context.Context // ends when the session or the VM is removed
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing more comes out

	lines chan line     // on their way to the relay
	eof   chan struct{} // closed when no more are taken
	ended sync.Once     // closes eof
	out   *agent.Spool

	taken atomic.Uint64 // lines of in
	calls atomic.Uint64 // that ctl made
	last  atomic.Uint64 // the number of the last of them that went out
}

const (
	maxTreeSessions = 64      // of a VM, made in the tree
	maxLine         = 4 << 20 // of in
	maxOut          = 4 << 20 // bytes of out that are kept, read or not
)

// A line is a message for the endpoint.
type line struct {
	text  []byte
	greet bool // initialize has to be said before
}

func sessionVerbs() []verb {
	return []verb{
		{Name: "call", Args: "TOOL [JSON]", Raw: true, Do: callInSession, Doc: "call a tool, its arguments quoted or as they stand; status has the id under which out has the answer"},
		{Name: "eof", Max: 0, Do: endSession, Doc: "end the input; out ends when all is answered"},
	}
}

func sessionName(c call) (string, error) { return c.At.session.name + "\n", nil }

func sessionStatus(c call) (string, error) {
	s := c.At.session
	state := "open"
	select {
	case <-s.done:
		state = "ended"
	default:
		select {
		case <-s.eof:
			state = "ending"
		default:
		}
	}
	text := fmt.Sprintf("%s\nin %d\nout %d\n", state, s.taken.Load(), s.out.Size())
	if n := s.last.Load(); n > 0 {
		text += "call " + callID(n) + "\n"
	}
	return text, nil
}

// callID is the id of the nth call that ctl makes.
func callID(n uint64) string { return fmt.Sprintf("ctl-%d", n) }

// callInSession has the session call a tool, as a client would that has just
// begun, or as the one that said initialize itself.
func callInSession(c call, args []string) error {
	tool, arguments, err := toolCall(args[0])
	if err != nil {
		return err
	}
	s := c.At.session
	n := s.calls.Add(1)
	text, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": callID(n), "method": "tools/call",
		"params": map[string]any{"name": tool, "arguments": arguments},
	})
	if err != nil {
		return err
	}
	if err := s.send(c.Ctx, line{text, true}); err != nil {
		return err
	}
	s.last.Store(n)
	return nil
}

// toolCall takes apart what follows call: each part is a word quoted as
// everywhere, or, the arguments, the rest of the line as it stands.
func toolCall(text string) (tool string, args json.RawMessage, err error) {
	tool, rest, _ := strings.Cut(text, " ")
	if rest = strings.TrimSpace(rest); strings.HasPrefix(tool, "'") || strings.HasPrefix(rest, "'") {
		words, err := fs.Words(text)
		if err == nil && len(words) > 2 {
			err = fmt.Errorf("%w: %d words: want \"call TOOL [JSON]\"", fs.ErrInvalid, len(words)+1)
		}
		if err != nil {
			return "", nil, err
		}
		tool, rest = words[0], strings.Join(words[1:], "")
	}
	args, err = arguments(rest)
	return tool, args, err
}

func endSession(c call, _ []string) error {
	c.At.session.end()
	return nil
}

func (s *session) end() { s.ended.Do(func() { close(s.eof) }) }

// sendInSession takes a line of in. What is no JSON is the writer's mistake;
// what is no request is for the endpoint to answer.
func sendInSession(c call, m string) error {
	text := bytes.TrimSpace([]byte(m))
	if len(text) == 0 {
		return nil
	}
	if err := rawjson.Check(text); err != nil {
		return fmt.Errorf("%w: not JSON, a message a line: %w", fs.ErrInvalid, err)
	}
	return c.At.session.send(c.Ctx, line{text: text})
}

// send hands a line to the relay.
func (s *session) send(ctx context.Context, l line) error {
	over := fmt.Errorf("%w: the input of session %q has ended", fs.ErrPipe, s.name)
	select {
	case <-s.eof:
		return over
	default:
	}
	select {
	case s.lines <- l:
		s.taken.Add(1)
		return nil
	case <-s.eof:
		return over
	case <-ctx.Done():
		return ctx.Err()
	}
}

func openSessionOut(c call, flags int) (fs.Handle, error) {
	return c.At.session.out.Open(flags&syscall.O_NONBLOCK != 0), nil
}

// run relays until the input has ended and all is answered.
func (s *session) run() {
	defer close(s.done)
	defer s.out.Finish()
	defer s.end()
	stop := context.AfterFunc(s.ctx, s.out.Abandon)
	defer stop()
	if err := relay.Run(s.ctx, &input{s: s}, &output{to: s.out}, s.dial, asker); err != nil && s.ctx.Err() == nil {
		s.vm.s.log.Warn("MCP session ended", "vm", s.vm.Name(), "session", s.name, "err", err)
	}
}

// dial connects the relay to the endpoint.
func (s *session) dial(context.Context) (net.Conn, error) {
	ours, its := net.Pipe()
	if !s.vm.later(func(context.Context) error { return s.vm.mcp.Serve(s.ctx, its) }) {
		return nil, fmt.Errorf("%w: vm %s", fs.ErrNotExist, s.vm.Name())
	}
	return ours, nil
}

// hello is what a session says for a client that only calls.
const (
	helloID = `"hutch-initialize"`
	hello   = `{"jsonrpc":"2.0","id":` + helloID + `,"method":"initialize","params":{"protocolVersion":"` + client.Version +
		`","capabilities":{},"clientInfo":{"name":"hutch","version":"` + Version + `"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
)

// An input is a session's lines as the relay reads them.
type input struct {
	s       *session
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
		in.rest = []byte(hello)
	}
	in.greeted = in.greeted || l.greet || rawjson.GetString(l.text, "method") == "initialize"
	in.rest = append(append(in.rest, l.text...), '\n')
}

// An output is what the relay has for the client, but for the answer to what
// the session said itself.
type output struct {
	to     *agent.Spool
	hiding bool // until the line ends
}

var ownAnswer = []byte(`{"jsonrpc":"2.0","id":` + helloID)

func (o *output) Write(p []byte) (int, error) {
	if o.hiding || bytes.HasPrefix(p, ownAnswer) {
		o.hiding = !bytes.HasSuffix(p, []byte("\n"))
		return len(p), nil
	}
	return o.to.Write(p)
}

func sessionNames(c call) ([]string, error) {
	c.At.vm.mu.Lock()
	defer c.At.vm.mu.Unlock()
	return slices.Sorted(maps.Keys(c.At.vm.sessions)), nil
}

func enterSession(c call, name string) (at, error) {
	c.At.vm.mu.Lock()
	defer c.At.vm.mu.Unlock()
	s := c.At.vm.sessions[name]
	if s == nil {
		return at{}, fmt.Errorf("%w: MCP session %s", fs.ErrNotExist, name)
	}
	return at{s: c.At.s, vm: c.At.vm, session: s}, nil
}

func makeSession(c call, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	v := c.At.vm
	s := &session{
		vm: v, id: v.s.next(), name: name, done: make(chan struct{}),
		lines: make(chan line), eof: make(chan struct{}), out: agent.NewSpool(maxOut),
	}
	s.ctx, s.cancel = context.WithCancel(v.ctx)
	err := v.beginSession(s)
	if err != nil {
		s.cancel()
	}
	return err
}

func (v *vm) beginSession(s *session) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.sessions[s.name] != nil:
		return fmt.Errorf("%w: MCP session %s", fs.ErrExist, s.name)
	case len(v.sessions) >= maxTreeSessions:
		return fmt.Errorf("%w: vm %q has %d MCP sessions, and cannot have more: remove one", fs.ErrNoSpace, v.Name(), maxTreeSessions)
	case !v.work.begin(s.run):
		return fmt.Errorf("%w: vm %s", fs.ErrNotExist, v.Name())
	}
	v.sessions[s.name] = s
	return nil
}

// dropSession removes a session; calls under way are given up.
func dropSession(c call, name string) error {
	v := c.At.vm
	v.mu.Lock()
	s := v.sessions[name]
	delete(v.sessions, name)
	v.mu.Unlock()
	if s == nil {
		return fmt.Errorf("%w: MCP session %s", fs.ErrNotExist, name)
	}
	s.cancel()
	select {
	case <-s.done:
		return nil
	case <-c.Ctx.Done():
		return c.Ctx.Err()
	}
}
