package child

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"

	"hutch/aggd/process"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
)

// A run is one process of the child.
type run struct {
	cfg    *Config
	p      *process.Process
	in     *wire.Queue
	ctx    context.Context // ends with the process; for answers to servers' requests
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	// mu guards the fields below.
	mu      sync.Mutex
	pending map[uint64]*pending
	asked   map[uint64]context.CancelFunc // requests of servers being answered, by rid
	over    error
}

// pending is a request without an answer yet.
type pending struct {
	call   wire.Call
	answer chan []byte // the line, or closed when there will be none
}

// start starts a process.
func start(ctx context.Context, cfg *Config) (*run, error) {
	r := &run{cfg: cfg, pending: make(map[uint64]*pending), asked: make(map[uint64]context.CancelFunc)}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	began := make(chan struct{})
	p, err := process.Start(process.Config{
		Path: cfg.Path,
		Args: append([]string{
			"-max-request", strconv.Itoa(cfg.MaxRequest),
			"-max-result", strconv.Itoa(cfg.MaxResult),
		}, cfg.Args...),
		Log:  cfg.Log,
		Read: func(out io.Reader) { <-began; r.receive(wire.NewReader(out, cfg.MaxResult+1<<20)) },
		Gone: r.gone,
	})
	if err != nil {
		r.cancel()
		return nil, fmt.Errorf("aggregator: %w", err)
	}
	r.p, r.in = p, wire.NewQueue(p.In)
	close(began)
	return r, nil
}

// gone ends what belongs to a process that has ended.
func (r *run) gone(how string) {
	r.cancel()
	r.in.Close()
	r.fail(fmt.Errorf("%w: the aggregator died (%s)", fs.ErrIO, how))
}

// wait waits for the end and for everything the run started.
func (r *run) wait() error {
	<-r.p.Exited()
	<-r.in.Done()
	r.tasks.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// end ends the process: by the end of its input, or after some grace by force.
func (r *run) end() {
	r.in.Close()
	r.p.End()
}

// fail answers everything pending with err, and everything later.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = err
	for id, p := range r.pending {
		close(p.answer)
		delete(r.pending, id)
	}
}

// putServers writes the first line.
func (r *run) putServers(servers []wire.Server) {
	if servers == nil {
		servers = []wire.Server{}
	}
	line, err := rawjson.Encode(servers)
	if err != nil { // headers and arguments are plain text: it does not happen
		line = []byte("[]")
	}
	r.in.Put(line)
}

// request writes a request without waiting for its answer.
func (r *run) request(id uint64, method string, params any) error {
	q := wire.Request{ID: id, Method: method}
	if params != nil {
		p, err := rawjson.Encode(params)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", fs.ErrInvalid, method, err)
		}
		q.Params = p
	}
	line, err := rawjson.Encode(q)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", fs.ErrInvalid, method, err)
	}
	return r.put(line)
}

func (r *run) put(line []byte) error {
	if len(line) > r.cfg.MaxRequest {
		return fmt.Errorf("the request: %w", &wire.TooLong{Size: int64(len(line)), Limit: r.cfg.MaxRequest})
	}
	if err := r.in.Put(line); err != nil {
		return fmt.Errorf("%w: the aggregator: %w", fs.ErrIO, err)
	}
	return nil
}

// exchange writes line, the request id, and waits for the line that answers it.
func (r *run) exchange(ctx context.Context, id uint64, call wire.Call, line []byte) ([]byte, error) {
	p := &pending{call: call, answer: make(chan []byte, 1)}
	if err := r.expect(id, p); err != nil {
		return nil, err
	}
	defer r.forget(id)
	if err := r.put(line); err != nil {
		return nil, err
	}
	select {
	case answer, ok := <-p.answer:
		if !ok {
			r.mu.Lock()
			defer r.mu.Unlock()
			return nil, r.over
		}
		return answer, nil
	case <-ctx.Done():
		cause := context.Cause(ctx)
		r.request(id, wire.Cancel, wire.CancelParams{ID: id, Reason: cause.Error()})
		return nil, cause
	}
}

func (r *run) expect(id uint64, p *pending) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return r.over
	}
	r.pending[id] = p
	return nil
}

func (r *run) forget(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, id)
}

func (r *run) find(id uint64) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending[id]
}

// encodeCall returns the line of a call without decoding its params.
func encodeCall(id uint64, method string, call wire.Call) []byte {
	line := make([]byte, 0, len(call.Params)+len(call.Method)+len(call.Server)+128)
	line = append(line, `{"id":`...)
	line = strconv.AppendUint(line, id, 10)
	line = append(line, `,"method":"`...)
	line = append(line, method...)
	line = append(line, `","params":{"server":`...)
	line = append(line, rawjson.Quote(call.Server)...)
	if call.Client != "" {
		line = append(append(line, `,"client":`...), rawjson.Quote(call.Client)...)
	}
	line = append(append(line, `,"method":`...), rawjson.Quote(call.Method)...)
	if len(call.Params) > 0 {
		line = append(append(line, `,"params":`...), rawjson.Line(call.Params)...)
	}
	return append(line, "}}"...)
}

// valid refuses params that are no JSON: they would be taken for part of the line.
func valid(params json.RawMessage) error {
	if len(params) > 0 && !json.Valid(params) {
		return fmt.Errorf("%w: params are not JSON", fs.ErrInvalid)
	}
	return nil
}
