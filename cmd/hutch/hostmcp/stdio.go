package hostmcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"hutch/fs"
)

const (
	maxLine  = 32 << 20 // bytes of a message
	maxCalls = 256      // requests under way
	maxBytes = 64 << 20 // of them together
)

// A session is the one client, on a pair of streams. It is our own beside
// mcp-go's, whose notifications are lost when more than a hundred wait, whose
// lines have no limit, and which knows of no subscriptions.
type session struct {
	server  *server.MCPServer
	watches watches
	ctx     context.Context // what subscriptions end with

	version     atomic.Value
	initialized atomic.Bool

	writing sync.Mutex // held while a message is written
	out     io.Writer

	mu    sync.Mutex          // guards what follows
	calls map[string]*request // under way, by id
	bytes int                 // of these
	all   sync.WaitGroup
}

type request struct {
	cancel  context.CancelCauseFunc
	bytes   int
	listens bool // it is answered when nobody wants it any more
}

// errCancelled is why a request ends that its client takes back.
var errCancelled = errors.New("cancelled by the client")

func newSession(h *host, s *server.MCPServer, out io.Writer) *session {
	return &session{
		server: s, out: out, calls: map[string]*request{},
		watches: watches{h: h, end: map[string]context.CancelFunc{}},
	}
}

func (s *session) SessionID() string           { return "stdio" }
func (s *session) Initialize()                 { s.initialized.Store(true) }
func (s *session) Initialized() bool           { return s.initialized.Load() }
func (s *session) SetProtocolVersion(v string) { s.version.Store(v) }

// NotificationChannel is none: a session has nothing of the library's to tell,
// but what a listener has.
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return nil }

func (s *session) ProtocolVersion() string {
	v, _ := s.version.Load().(string)
	return v
}

// serve answers the messages of in until it ends and all is answered, or ctx
// is done, or nobody reads the answers any more, which closes gone.
func (s *session) serve(ctx context.Context, in io.Reader, gone <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	defer s.watches.close()
	defer s.all.Wait()
	defer cancel()
	if err := s.server.RegisterSession(ctx, s); err != nil {
		return err
	}
	defer s.server.UnregisterSession(context.WithoutCancel(ctx), s.SessionID())
	lines, ended := make(chan []byte), make(chan error, 1)
	go func() { ended <- readLines(ctx, in, lines) }() // a read of a terminal cannot be called back
	for {
		select {
		case line := <-lines:
			s.take(ctx, line)
		case err := <-ended:
			if err != nil {
				return err
			}
			return s.drain(ctx, gone)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain waits for what is under way when the input has ended.
func (s *session) drain(ctx context.Context, gone <-chan struct{}) error {
	s.mu.Lock()
	for _, r := range s.calls {
		if r.listens {
			r.cancel(nil)
		}
	}
	s.mu.Unlock()
	answered := make(chan struct{})
	go func() {
		s.all.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-gone:
	case <-ctx.Done():
	}
	return nil
}

// readLines sends the lines of in, until it ends.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(r)
		if len(bytes.TrimSpace(line)) > 0 {
			select {
			case lines <- line:
			case <-ctx.Done():
				return nil
			}
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); err != bufio.ErrBufferFull {
			return line, err
		}
		if len(line) > maxLine {
			return nil, fmt.Errorf("a message of more than %d bytes", maxLine)
		}
	}
}

// An envelope is what a message says of itself.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
		URI       string          `json:"uri"`
	} `json:"params"`
}

// take begins to answer a message.
func (s *session) take(ctx context.Context, line []byte) {
	var e envelope
	if json.Unmarshal(line, &e) != nil || len(e.ID) == 0 || string(e.ID) == "null" {
		if e.Method == string(mcp.MethodNotificationCancelled) {
			s.cancel(string(e.Params.RequestID))
		}
		if answer := s.answer(ctx, e, line); answer != nil {
			s.write(answer)
		}
		return
	}
	id := string(e.ID)
	ctx, cancel := context.WithCancelCause(ctx)
	r := &request{cancel, len(line), e.Method == string(mcp.MethodSubscriptionsListen)}
	if why := s.enter(id, r); why != "" {
		cancel(nil)
		s.refuse(e.ID, why)
		return
	}
	handle := s.answer
	if ctx = s.server.WithContext(ctx, s); r.listens {
		handle = (&listener{s, e.ID, make(chan mcp.JSONRPCNotification, 1)}).answer
	}
	s.all.Go(func() {
		defer cancel(nil)
		answer := handle(ctx, e, line)
		if s.leave(id); answer != nil && context.Cause(ctx) != errCancelled {
			s.write(answer)
		}
	})
}

// answer handles a message and returns the answer, nil if it has none.
func (s *session) answer(ctx context.Context, e envelope, line []byte) mcp.JSONRPCMessage {
	answer := s.server.HandleMessage(ctx, line)
	failed, ok := answer.(mcp.JSONRPCError)
	if !ok {
		return answer
	}
	switch how := &failed.Error; mcp.MCPMethod(e.Method) {
	case mcp.MethodServerDiscover:
		if how.Code == mcp.METHOD_NOT_FOUND {
			how.Code = mcp.INVALID_PARAMS // there is one, in the revision that the parameters do not say
		}
	case mcp.MethodResourcesRead:
		if strings.HasPrefix(how.Message, fs.ErrNotExist.Error()) { // whose code the library leaves to nobody
			how.Code = mcp.RESOURCE_NOT_FOUND
			if bytes.Contains(line, []byte(mcp.MetaKeyProtocolVersion)) { // 2026-07-28
				how.Code = mcp.INVALID_PARAMS
			}
		}
		how.Data = map[string]any{"uri": e.Params.URI}
	}
	return failed
}

// enter counts a request in, or says why it cannot be.
func (s *session) enter(id string, r *request) (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.calls[id] != nil:
		return "a request with this id is under way"
	case len(s.calls) >= maxCalls:
		return fmt.Sprintf("%d requests are under way: wait for an answer", maxCalls)
	case s.bytes+r.bytes > maxBytes:
		return fmt.Sprintf("requests of %d bytes are under way: wait for an answer", s.bytes)
	}
	s.bytes += r.bytes
	s.calls[id] = r
	return ""
}

func (s *session) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= s.calls[id].bytes
	delete(s.calls, id)
}

func (s *session) cancel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.calls[id]; r != nil {
		r.cancel(errCancelled)
	}
}

func (s *session) refuse(id json.RawMessage, why string) {
	s.write(mcp.JSONRPCError{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(id), Error: mcp.NewJSONRPCErrorDetails(mcp.INVALID_REQUEST, why, nil)})
}

// notify writes a notification. It waits for a reader who is slow.
func (s *session) notify(method string, params map[string]any) {
	s.write(mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: method, Params: mcp.NotificationParams{AdditionalFields: params},
	}})
}

func (s *session) write(message any) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(message); err != nil {
		return
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.out.Write(line.Bytes()) // whoever does not read has gone, which serve is told of
}
