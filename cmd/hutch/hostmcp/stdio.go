package hostmcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/fs"
)

const (
	maxLine  = 32 << 20 // bytes of a message
	maxCalls = 256      // requests under way
	maxBytes = 64 << 20 // of them together

	// unreadLimit is how long a client whose input has ended may read nothing of
	// what is written to it.
	unreadLimit = 5 * time.Second
	endLimit    = time.Second // the same, of one who has us end
	atOnce      = 16 << 10    // bytes of a write
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
	busy    atomic.Bool  // a write is under way
	written atomic.Int64 // bytes
	unread  bool         // serve's: it has given up on a write

	mu      sync.Mutex          // guards what follows
	calls   map[string]*request // under way, by id
	bytes   int                 // of these
	kept    int                 // bytes of answers in batches that are not whole
	all     sync.WaitGroup      // of requests
	closing bool                // all is waited for: there can be no more
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
// is done, or nobody reads the answers any more, which closes gone. Who writes to in
// closes left by going.
func (s *session) serve(ctx context.Context, in io.Reader, left, gone <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	defer s.finish()
	defer cancel()
	if err := s.server.RegisterSession(ctx, s); err != nil {
		return err
	}
	defer s.server.UnregisterSession(context.WithoutCancel(ctx), s.SessionID())
	var err error
	ended := make(chan struct{})
	go func() { // not waited for: neither a read of a terminal nor a write that nobody reads can be called back
		defer close(ended)
		err = s.read(ctx, in)
	}()
	select {
	case <-ended:
	case <-left: // what was written before may be more than is read, as answers are not
		s.unread = s.await(unreadLimit, ended, gone, ctx.Done())
	case <-ctx.Done():
	}
	select {
	case <-ended:
		if err == nil {
			s.drain(ctx, gone)
		}
		return err
	default:
		return ctx.Err()
	}
}

// drain waits for what is under way when the input has ended.
func (s *session) drain(ctx context.Context, gone <-chan struct{}) {
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
	s.unread = s.await(unreadLimit, answered, gone, ctx.Done())
}

// finish waits for all that was begun, but for writes that nobody reads, which
// cannot be called back.
func (s *session) finish() {
	if s.unread {
		return
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	over := make(chan struct{})
	go func() {
		s.all.Wait()
		s.watches.close()
		close(over)
	}()
	s.await(endLimit, over, nil, nil)
}

// await waits for one of the channels, or until nobody reads for so long, which it
// returns.
func (s *session) await(long time.Duration, over, gone, done <-chan struct{}) (unread bool) {
	tick := time.NewTicker(long)
	defer tick.Stop()
	for before := int64(-1); ; {
		select {
		case <-over:
			return false
		case <-gone:
			return false
		case <-done:
			return false
		case <-tick.C:
			written := s.written.Load()
			if s.busy.Load() && written == before {
				return true
			}
			before = written
		}
	}
}

// read begins to answer the lines of in, until it ends.
func (s *session) read(ctx context.Context, in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(r)
		if line = bytes.TrimSpace(line); len(line) > 0 {
			s.take(ctx, line)
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

// take begins to answer a line: a message, or where the client's revision has them a
// batch of messages.
func (s *session) take(ctx context.Context, line []byte) {
	if line[0] != '[' || s.ProtocolVersion() != jsonrpc.Batching || !json.Valid(line) {
		s.begin(ctx, line, nil)
		return
	}
	elements := rawjson.Elements(line)
	if len(elements) == 0 || len(elements) > jsonrpc.MaxBatch {
		s.refuse(nil, nil, "a batch of %d messages, from 1 to %d", len(elements), jsonrpc.MaxBatch)
		return
	}
	b := &jsonrpc.Batch{Keep: s.keep}
	b.Expect() // that it is read
	for _, element := range elements {
		s.begin(ctx, bytes.Clone(element), b)
	}
	s.send(b.Answer(nil))
}

// begin begins to answer a message, of a batch where that is not nil.
func (s *session) begin(ctx context.Context, line []byte, b *jsonrpc.Batch) {
	m, err := jsonrpc.ParseStrict(line)
	switch {
	case err != nil:
		b.Expect()
		s.send(b.Answer(jsonrpc.Response(m.ID, nil, err.Raw())))
	case m.Method == string(mcp.MethodNotificationCancelled) && m.ID == nil:
		s.cancel(string(rawjson.Get(m.Params, "requestId")))
	case m.Method == "": // an answer, to what we did not ask
	case m.ID == nil:
		s.server.HandleMessage(s.server.WithContext(ctx, s), line)
	default:
		b.Expect()
		s.request(ctx, m, line, b)
	}
}

// request begins to answer a request.
func (s *session) request(ctx context.Context, m jsonrpc.Message, line []byte, b *jsonrpc.Batch) {
	if b != nil && m.Method == string(mcp.MethodInitialize) {
		s.refuse(b, m.ID, "initialize stands in no batch")
		return
	}
	id := string(m.ID)
	ctx, cancel := context.WithCancelCause(ctx)
	r := &request{cancel, len(line), m.Method == string(mcp.MethodSubscriptionsListen)}
	if why := s.enter(id, r); why != "" {
		cancel(nil)
		s.refuse(b, m.ID, "%s", why)
		return
	}
	handle := s.answer
	if ctx = s.server.WithContext(ctx, s); r.listens {
		handle = (&listener{s, m.ID, make(chan mcp.JSONRPCNotification, 1)}).answer
	}
	go func() {
		defer s.all.Done()
		defer cancel(nil)
		answer := handle(ctx, m, line)
		s.leave(id)
		s.send(b.Answer(answer))
	}()
}

// answer handles a request and returns the answer. One that is cancelled has none,
// unless it is a tool's that was done before that: its client would not know.
func (s *session) answer(ctx context.Context, m jsonrpc.Message, line []byte) []byte {
	answer := s.server.HandleMessage(ctx, line)
	if context.Cause(ctx) == errCancelled && !done(answer) {
		return nil
	}
	switch answer := answer.(type) {
	case mcp.JSONRPCResponse:
		answer.ID = mcp.NewRequestId(m.ID) // the library has numbers rounded
		return encodedLine(answer)
	case mcp.JSONRPCError:
		answer.ID = mcp.NewRequestId(m.ID)
		correct(&answer.Error, m)
		return encodedLine(answer)
	}
	return nil
}

// done says whether an answer is that of a tool that did what it was to do.
func done(answer mcp.JSONRPCMessage) bool {
	r, _ := answer.(mcp.JSONRPCResponse)
	result, ok := r.Result.(*mcp.CallToolResult)
	return ok && !result.IsError
}

// correct says in an error what the library leaves to nobody.
func correct(e *mcp.JSONRPCErrorDetails, m jsonrpc.Message) {
	switch mcp.MCPMethod(m.Method) {
	case mcp.MethodServerDiscover:
		if e.Code == mcp.METHOD_NOT_FOUND {
			e.Code = mcp.INVALID_PARAMS // there is one, in the revision that the parameters do not say
		}
	case mcp.MethodResourcesRead:
		if strings.HasPrefix(e.Message, fs.ErrNotExist.Error()) {
			e.Code = mcp.RESOURCE_NOT_FOUND
			if rawjson.Get(m.Params, "_meta", jsonrpc.MetaRevision) != nil { // 2026-07-28
				e.Code = mcp.INVALID_PARAMS
			}
		}
		e.Data = map[string]any{"uri": rawjson.GetString(m.Params, "uri")}
	}
}

// enter counts a request in, which is done with all then, or says why it cannot be.
func (s *session) enter(id string, r *request) (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return "the session ends"
	case s.calls[id] != nil:
		return "a request with this id is under way"
	case len(s.calls) >= maxCalls:
		return fmt.Sprintf("%d requests are under way: wait for an answer", maxCalls)
	case s.bytes+r.bytes > maxBytes:
		return fmt.Sprintf("requests of %d bytes are under way: wait for an answer", s.bytes)
	}
	s.bytes += r.bytes
	s.calls[id] = r
	s.all.Add(1)
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

func (s *session) refuse(b *jsonrpc.Batch, id []byte, format string, a ...any) {
	s.send(b.Answer(jsonrpc.Response(id, nil, jsonrpc.Errorf(jsonrpc.CodeInvalid, format, a...).Raw())))
}

// keep counts what is kept of batches, of which there may be as much as of requests.
func (s *session) keep(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept+n > maxBytes {
		return false
	}
	s.kept += n
	return true
}

// notify writes a notification. It waits for a reader who is slow.
func (s *session) notify(method string, params map[string]any) {
	s.write(mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: method, Params: mcp.NotificationParams{AdditionalFields: params},
	}})
}

func (s *session) write(message any) { s.send(encodedLine(message)) }

// encodedLine is a message without the end of its line, nil for what cannot be one.
func encodedLine(message any) []byte {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if enc.Encode(message) != nil {
		return nil
	}
	return bytes.TrimSuffix(line.Bytes(), []byte("\n"))
}

// send writes a line, or nothing where that is nil.
func (s *session) send(line []byte) {
	if line == nil {
		return
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.busy.Store(true)
	defer s.busy.Store(false)
	for part := range slices.Chunk(append(line, '\n'), atOnce) {
		n, err := s.out.Write(part)
		if s.written.Add(int64(n)); err != nil {
			return // whoever does not read has gone, which serve is told of
		}
	}
}
