package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"hutch/aggd/guard"
	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
)

// maxLine is the longest request, and maxCalls the most calls at once that may
// use the network.
const (
	maxLine  = 4 << 20
	maxCalls = 64
)

// A Server answers one client.
type Server struct {
	web   *web
	out   *wire.Writer
	slots chan struct{}
	calls sync.WaitGroup

	mu      sync.Mutex                    // guards cancels
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
			s.refuse(long.ID, jsonrpc.CodeInvalid, long.Error())
		case err != nil:
			return fmt.Errorf("reading requests: %w", err)
		case line[0] == '[' && json.Valid(line):
			for _, element := range rawjson.Elements(line) {
				s.message(ctx, element)
			}
		default:
			s.message(ctx, line)
		}
	}
}

// message takes one message.
func (s *Server) message(ctx context.Context, line []byte) {
	m, err := jsonrpc.Parse(line)
	switch {
	case errors.Is(err, rawjson.ErrType): // some other value
	case err != nil:
		s.refuse(nil, jsonrpc.CodeParse, "not JSON")
	case m.ID == nil && m.Method == "notifications/cancelled":
		s.cancel(rawjson.Get(m.Params, "requestId"))
	case m.ID == nil || m.Method == "" && (m.Result != nil || m.Error != nil):
		// other notifications, and answers to what nobody asked
	case m.Method == "":
		s.refuse(m.ID, jsonrpc.CodeInvalid, "no method")
	case m.Method == "initialize":
		s.answer(m.ID, s.initialize(m.Params))
	case m.Method == "ping":
		s.answer(m.ID, []byte("{}"))
	case m.Method == "tools/list":
		s.answer(m.ID, toolList)
	case m.Method == "tools/call":
		s.call(ctx, m.ID, m.Params)
	default:
		s.refuse(m.ID, jsonrpc.CodeMethod, "method not found: "+m.Method)
	}
}

func (s *Server) initialize(params []byte) []byte {
	return fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"hutch-local","version":%s}}`,
		jsonrpc.Agree(rawjson.GetString(params, "protocolVersion")), rawjson.Quote(fs.Version))
}

// call runs a tool: at once where it never waits, else beside the others.
func (s *Server) call(ctx context.Context, id, params []byte) {
	name := rawjson.GetString(params, "name")
	t, known := tools[name]
	if !known {
		s.refuse(id, jsonrpc.CodeParams, "unknown tool: "+name)
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
func (s *Server) result(id []byte, t tool, ctx context.Context, args []byte) {
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
	if errors.Is(err, guard.ErrRefused) {
		failed += `,"_meta":{"` + wire.RefusedMeta + `":true}`
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
	s.out.Write(jsonrpc.Response(id, result, nil))
}

func (s *Server) refuse(id []byte, code int, text string) {
	s.out.Write(jsonrpc.Response(id, nil, jsonrpc.Errorf(code, "%s", text).Raw()))
}
