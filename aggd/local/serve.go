package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// revisions of MCP that are spoken; the first is the one preferred.
var revisions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// The codes of JSON-RPC's errors.
const (
	parseError     = -32700
	invalidRequest = -32600
	methodNotFound = -32601
	invalidParams  = -32602
)

// maxLine is the longest request, and maxCalls the most calls at once that may
// use the network.
const (
	maxLine  = 4 << 20
	maxCalls = 64
)

// A Server answers one client.
type Server struct {
	web     *web
	version string
	out     *wire.Writer
	slots   chan struct{}
	calls   sync.WaitGroup

	// mu guards cancels.
	mu      sync.Mutex
	cancels map[string]context.CancelFunc // of calls under way, by id
}

// New returns a server with a policy for what it may reach.
func New(cfg Config) (*Server, error) {
	w, err := newWeb(cfg)
	if err != nil {
		return nil, err
	}
	return &Server{
		web:     w,
		version: cfg.Version,
		slots:   make(chan struct{}, maxCalls),
		cancels: make(map[string]context.CancelFunc),
	}, nil
}

// Serve answers the requests of in on out until in ends.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.calls.Wait()
	defer cancel()
	s.out = wire.NewWriter(out)
	lines := wire.NewReader(in, maxLine)
	for {
		line, err := lines.Read()
		var long *wire.TooLong
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &long):
			s.refuse(long.ID, invalidRequest, long.Error())
		case err != nil:
			return fmt.Errorf("reading requests: %w", err)
		case !json.Valid(line):
			s.refuse(nil, parseError, "not JSON")
		default:
			s.message(ctx, line)
		}
	}
}

// message takes one message, or each of a batch.
func (s *Server) message(ctx context.Context, line []byte) {
	if line[0] == '[' {
		for _, element := range rawjson.Elements(line) {
			s.one(ctx, element)
		}
		return
	}
	s.one(ctx, line)
}

func (s *Server) one(ctx context.Context, line []byte) {
	id, params := rawjson.Get(line, "id"), rawjson.Get(line, "params")
	method := rawjson.GetString(line, "method")
	switch {
	case id == nil && method == "notifications/cancelled":
		s.cancel(rawjson.Get(params, "requestId"))
	case id == nil || method == "" && (rawjson.Get(line, "result") != nil || rawjson.Get(line, "error") != nil):
		// other notifications, and answers to what nobody asked
	case method == "":
		s.refuse(id, invalidRequest, "no method")
	case method == "initialize":
		s.answer(id, s.initialize(params))
	case method == "ping":
		s.answer(id, []byte("{}"))
	case method == "tools/list":
		s.answer(id, toolList)
	case method == "tools/call":
		s.call(ctx, id, params)
	default:
		s.refuse(id, methodNotFound, "method not found: "+method)
	}
}

func (s *Server) initialize(params []byte) []byte {
	revision := rawjson.GetString(params, "protocolVersion")
	if !slices.Contains(revisions, revision) {
		revision = revisions[0]
	}
	return fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"hutch-local","version":%s}}`,
		revision, rawjson.Quote(s.version))
}

// call runs a tool: at once where it never waits, else beside the others.
func (s *Server) call(ctx context.Context, id, params []byte) {
	name := rawjson.GetString(params, "name")
	t := find(name)
	if t == nil {
		s.refuse(id, invalidParams, "unknown tool: "+name)
		return
	}
	args := rawjson.Get(params, "arguments")
	if args == nil {
		args = []byte("{}")
	}
	if t.quick {
		s.result(id, t, ctx, args)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.cancels[string(id)] = cancel
	s.mu.Unlock()
	s.calls.Go(func() {
		defer s.cancel(id)
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
			s.result(id, t, ctx, args)
		case <-ctx.Done():
		}
	})
}

// result runs a tool and answers with what it says. A tool that fails says so in
// its result, for the model to read.
func (s *Server) result(id []byte, t *tool, ctx context.Context, args []byte) {
	text, err := t.run(ctx, s.web, args)
	if ctx.Err() != nil {
		return // nobody wants the answer
	}
	failed := ""
	if err != nil {
		failed = `,"isError":true`
		if text == "" {
			text = "Error: " + err.Error()
		}
	}
	s.answer(id, fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]%s}`, rawjson.Quote(text), failed))
}

// cancel ends the call that id names.
func (s *Server) cancel(id []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.cancels[string(id)]; cancel != nil {
		cancel()
		delete(s.cancels, string(id))
	}
}

func (s *Server) answer(id, result []byte) {
	s.out.Write([]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"result":`), result, []byte("}"))
}

func (s *Server) refuse(id []byte, code int, text string) {
	if id == nil {
		id = []byte("null")
	}
	s.out.Write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, rawjson.Quote(text)))
}
