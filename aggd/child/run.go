package child

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"hutch/aggd/process"
	"hutch/aggd/programs"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/fs/duplex"
)

// A run is one process of the child.
type run struct {
	cfg    *Config
	limits func() wire.Limits
	p      *process.Process
	in     *wire.Queue
	ctx    context.Context // ends with the process; for answers to servers' requests
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	pending map[uint64]*pending
	asked   map[uint64]context.CancelFunc // requests of servers being answered, by rid
	over    error
}

// pending is a request without an answer yet.
type pending struct {
	call   wire.Call
	answer chan answer // closed when there will be none
}

// An answer is the line that answers a request, and what of it counts.
type answer struct {
	wire.Answer
	line []byte
	err  error // of the aggregator, not of a server
}

// unknown is the answer to a request that the process was given and has not answered.
var unknown = wire.Answer{Fate: wire.Unknown}

// start starts a process.
func start(ctx context.Context, cfg *Config, host *programs.Host, limits func() wire.Limits) (*run, error) {
	r := &run{cfg: cfg, limits: limits, pending: make(map[uint64]*pending), asked: make(map[uint64]context.CancelFunc)}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	began := make(chan struct{})
	ours, theirs, err := duplex.Pair()
	if err != nil {
		r.cancel()
		return nil, fmt.Errorf("aggregator: %w", err)
	}
	p, err := process.Start(process.Config{
		Path:  cfg.Path,
		Args:  []string{"-programs", "3", "-list-wait", cfg.ListWait.String()},
		Extra: []*os.File{theirs}, Confined: true,
		Log:  cfg.Log,
		Read: func(out io.Reader) { <-began; r.receive(wire.NewReader(out, wire.MaxLimit+1<<20)) },
		Gone: r.gone,
	})
	if err != nil {
		r.cancel()
		ours.Close()
		return nil, fmt.Errorf("start the aggregator: %w", err)
	}
	r.tasks.Go(func() { host.Serve(r.ctx, ours) })
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
func (r *run) putServers(servers []wire.Server) error {
	line, err := rawjson.Encode(servers)
	if err == nil {
		err = r.put(line)
	}
	if err != nil {
		return fmt.Errorf("the definitions of the servers: %w", err)
	}
	return nil
}

// request writes a request without waiting for its answer.
func (r *run) request(id uint64, method string, params any) error {
	line, err := encode(id, method, params)
	if err != nil {
		return err
	}
	return r.put(line)
}

func (r *run) put(line []byte) error {
	if limit := r.limits().Line(); len(line) > limit {
		return fmt.Errorf("the request: %w", &wire.TooLong{Size: int64(len(line)), Limit: limit})
	}
	if err := r.in.Put(line); err != nil {
		return fmt.Errorf("%w: the aggregator: %w", fs.ErrIO, err)
	}
	return nil
}

// exchange writes line, the request id, and waits for its answer.
func (r *run) exchange(ctx context.Context, id uint64, call wire.Call, line []byte) (answer, error) {
	if n, limit := int64(len(call.Params)), r.limits().MaxRequest; n > limit {
		return answer{}, fmt.Errorf("the request: %w", &wire.TooLong{Size: n, Limit: int(limit)})
	}
	p := &pending{call: call, answer: make(chan answer, 1)}
	if err := r.expect(id, p); err != nil {
		return answer{}, err
	}
	defer r.forget(id)
	if err := r.put(line); err != nil {
		return answer{}, err
	}
	select {
	case a, ok := <-p.answer:
		if !ok {
			r.mu.Lock()
			defer r.mu.Unlock()
			return answer{Answer: unknown}, r.over
		}
		return a, a.err
	case <-ctx.Done():
		cause := context.Cause(ctx)
		r.request(id, wire.Cancel, wire.CancelParams{ID: id, Reason: cause.Error()})
		return answer{Answer: unknown}, cause
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

// encode returns the line of one of the aggregator's own requests.
func encode(id uint64, method string, params any) ([]byte, error) {
	line, err := rawjson.Encode(struct {
		ID     uint64 `json:"id"`
		Method string `json:"method"`
		Params any    `json:"params,omitempty"`
	}{id, method, params})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", fs.ErrInvalid, method, err)
	}
	return line, nil
}

// encodeCall returns the line of a call without decoding its params.
func encodeCall(id uint64, method string, call wire.Call) []byte {
	line := make([]byte, 0, len(call.Params)+len(call.Method)+len(call.Server)+128)
	line = append(openCall(line, id, method), `"server":`...)
	line = rawjson.AppendString(line, call.Server)
	line = rawjson.AppendString(append(line, `,"client":`...), call.Client)
	line = rawjson.AppendString(append(line, `,"method":`...), call.Method)
	if len(call.Params) > 0 {
		line = append(append(line, `,"params":`...), rawjson.Line(call.Params)...)
	}
	return append(line, "}}"...)
}

// openCall appends a request up to its first param.
func openCall(line []byte, id uint64, method string) []byte {
	line = strconv.AppendUint(append(line, `{"id":`...), id, 10)
	line = append(append(line, `,"method":"`...), method...)
	return append(line, `","params":{`...)
}
