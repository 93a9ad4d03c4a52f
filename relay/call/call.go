// Package call is the MCP client of programs in the guest that are no MCP
// clients: shell scripts, and measurements. It calls one tool, or the same
// tool many times, over a connection of its own to the endpoint.
package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/trace"
	"hutch/fs"
	"hutch/mcpd/frame"
	"hutch/mcpd/seal"
)

// A Client is one MCP session.
type Client struct {
	conn   net.Conn
	w      *frame.Writer
	name   string
	signer *seal.Signer  // of requests; nil: they go as they are
	trace  trace.Context // of requests; none: they go as they are

	mu      sync.Mutex // guards what follows; held over a write, so that streams are numbered in order
	stream  uint32
	waiting map[uint32]chan jsonrpc.Message
	err     error // why no more answers come

	read      sync.WaitGroup
	attesting sync.Mutex // held while the key is attested
}

// New starts a session on conn for the program called name, whose requests are
// signed if the Client is sealed.
func New(ctx context.Context, conn net.Conn, name string, sealed bool) (*Client, error) {
	c := &Client{conn: conn, w: frame.NewWriter(conn), name: name, trace: trace.FromEnv(), waiting: map[uint32]chan jsonrpc.Message{}}
	err := c.w.Preamble(name)
	if err == nil && sealed {
		c.signer, err = seal.NewSigner()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.read.Go(c.receive)
	_, err = c.Do(ctx, "initialize", json.RawMessage(`{"protocolVersion":"`+jsonrpc.Newest+
		`","capabilities":{},"clientInfo":{"name":"hutch-relay call","version":"`+fs.Version+`"}}`))
	if err == nil {
		err = c.w.WriteFrame(frame.Frame{Version: 2, Flags: frame.Notification, Process: name,
			Payload: jsonrpc.Notification("notifications/initialized", nil)})
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// receive hands each answer to the one who waits for it.
func (c *Client) receive() {
	r := frame.NewReader(c.conn)
	for {
		f, err := r.Next()
		var bad *frame.BadFrame
		if errors.As(err, &bad) {
			continue
		}
		if err != nil {
			c.fail(err)
			return
		}
		if f.Flags&frame.FromHost != 0 {
			continue // a request to a client that offered nothing; the endpoint does not send any
		}
		c.mu.Lock()
		answer := c.waiting[f.Stream]
		delete(c.waiting, f.Stream)
		c.mu.Unlock()
		if answer == nil {
			continue // a notification, or the answer to one who gave up
		}
		m, err := jsonrpc.Parse(f.Payload)
		if err != nil {
			m.Error = jsonrpc.Errorf(jsonrpc.CodeParse, "%v", err).Raw()
		}
		answer <- m
	}
}

// fail tells everybody who waits that nothing comes any more.
func (c *Client) fail(err error) {
	if err == io.EOF {
		err = errors.New("the endpoint hung up")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for stream, answer := range c.waiting {
		delete(c.waiting, stream)
		close(answer)
	}
}

// Do makes a request and returns its result.
func (c *Client) Do(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if err := c.attest(ctx); err != nil {
		return nil, err
	}
	result, object, err := c.ask(ctx, method, params)
	if object != nil {
		e := jsonrpc.Received(object)
		err = fmt.Errorf("%w (%s)", e, kindOf(e))
	}
	return result, err
}

// kindOf tells what a program can do about an error: for one of a policy its
// class, with SMCP's code and name, and for another JSON-RPC's code.
func kindOf(e *jsonrpc.Error) string {
	var data struct {
		Class, Name string
		Code        int
	}
	if json.Unmarshal(rawjson.Get(e.Raw(), "data"), &data) != nil || data.Class == "" || data.Name == "" {
		return strconv.Itoa(e.Code)
	}
	return fmt.Sprintf("%s: %d %s", data.Class, data.Code, data.Name)
}

// attest has the Client's key attested, if it has to be.
func (c *Client) attest(ctx context.Context) error {
	if c.signer == nil {
		return nil
	}
	c.attesting.Lock()
	defer c.attesting.Unlock()
	return c.signer.Attest(ctx, func(params json.RawMessage) (result, object json.RawMessage, err error) {
		return c.ask(ctx, seal.Attest, params)
	})
}

// ask makes a request and returns its result, or the error object.
func (c *Client) ask(ctx context.Context, method string, params json.RawMessage) (result, object json.RawMessage, err error) {
	answer := make(chan jsonrpc.Message, 1)
	if err := c.send(method, params, answer); err != nil {
		return nil, nil, err
	}
	select {
	case m, ok := <-answer:
		if !ok {
			return nil, nil, c.err
		}
		return m.Result, m.Error, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

func (c *Client) send(method string, params json.RawMessage, answer chan jsonrpc.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.stream++
	c.waiting[c.stream] = answer
	if !c.trace.IsZero() {
		params = trace.Put(params, c.trace)
	}
	request := jsonrpc.Request(uint64(c.stream), method, params)
	if c.signer != nil && method != seal.Attest {
		request = c.signer.Sign(request, time.Now())
	}
	return c.w.WriteFrame(frame.Frame{Version: 2, Stream: c.stream, Process: c.name, Payload: request})
}

// Tool calls a tool with the arguments args, a JSON object.
func (c *Client) Tool(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	params, err := json.Marshal(struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{name, args})
	if err != nil {
		return nil, fmt.Errorf("arguments are not JSON: %w", err)
	}
	return c.Do(ctx, "tools/call", params)
}

// Close ends the session.
func (c *Client) Close() error {
	err := c.conn.Close()
	c.read.Wait()
	return err
}

// A Load is what many calls took.
type Load struct {
	N    int     `json:"n"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	Rate float64 `json:"rate"`
}

// Many calls a tool n times, with up to at calls under way at once. No call
// begins when most has passed, if that is not 0.
func (c *Client) Many(ctx context.Context, name string, args json.RawMessage, n, at int, most time.Duration) (Load, error) {
	took := make([][]time.Duration, at)
	errs := make([]error, at)
	var next atomic.Int64
	var callers sync.WaitGroup
	began := time.Now()
	for i := range at {
		callers.Go(func() {
			for next.Add(1) <= int64(n) && (most == 0 || time.Since(began) < most) {
				one := time.Now()
				if _, errs[i] = c.Tool(ctx, name, args); errs[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(one))
			}
		})
	}
	callers.Wait()
	if err := errors.Join(errs...); err != nil {
		return Load{}, err
	}
	return loadOf(slices.Concat(took...), time.Since(began)), nil
}

func loadOf(took []time.Duration, whole time.Duration) Load {
	n := len(took)
	if n == 0 {
		return Load{}
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return Load{N: n, P50: ms(took[n/2]), P99: ms(took[n*99/100]), Rate: float64(n) / whole.Seconds()}
}
