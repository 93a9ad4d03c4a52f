package aggd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/programs"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
)

// Config is what an aggregator is started with.
type Config struct {
	Limits   wire.Limits      // until the host says others
	ListWait time.Duration    // how long a list waits for servers that are late
	EndWait  time.Duration    // how long requests under way may go on after the end of the input
	Programs *programs.Client // has hutchd start stdio servers; nil: there are none
	Log      io.Writer
}

func (cfg Config) withDefaults() Config {
	cfg.ListWait = cmp.Or(max(cfg.ListWait, 0), listWait)
	cfg.EndWait = cmp.Or(max(cfg.EndWait, 0), endWait)
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	return cfg
}

// An aggregator answers one host.
type aggregator struct {
	cfg      Config
	out      *wire.Writer
	set      atomic.Pointer[set] // the servers in force
	limits   atomic.Pointer[wire.Limits]
	fetches  atomic.Int64   // of lists
	requests sync.WaitGroup // being answered
	tasks    sync.WaitGroup // what requests and servers leave behind

	workers sync.WaitGroup
	waiting atomic.Int32 // workers that wait
	idle    chan func()  // to them; closed at the end

	logMu sync.Mutex // guards cfg.Log

	mu       sync.Mutex                   // guards what follows
	clients  map[string]wire.ClientParams // by key
	inFlight map[string]context.CancelCauseFunc
	asked    map[uint64]asked
	rid      uint64
}

// asked is a request of a server that the host has not answered yet.
type asked struct {
	c     *conn
	id    json.RawMessage
	batch *jsonrpc.Batch // that it came in, if any
}

// endWait is how long requests under way may go on after the end of the input.
const endWait = 5 * time.Second

// Run answers the lines of in on out until in ends or fails, or a shutdown is
// asked for. At the end of in, requests under way may still be answered within a
// few seconds, unless ctx ends. All servers are disconnected when Run returns.
func Run(ctx context.Context, cfg Config, in io.Reader, out io.Writer) error {
	a := &aggregator{
		cfg:      cfg.withDefaults(),
		out:      wire.NewWriter(out),
		idle:     make(chan func()),
		clients:  make(map[string]wire.ClientParams),
		inFlight: make(map[string]context.CancelCauseFunc),
		asked:    make(map[uint64]asked),
	}
	a.set.Store(&set{})
	a.setLimits(cfg.Limits)
	defer a.workers.Wait()
	defer close(a.idle)
	defer a.close()
	err := a.serve(wire.NewLimitedReader(in, func() int { return a.limits.Load().Line() }))
	if errors.Is(err, io.EOF) {
		a.finish(ctx)
		return nil
	}
	return err
}

func (a *aggregator) setLimits(l wire.Limits) {
	l = l.WithDefaults()
	a.limits.Store(&l)
}

// maxResult returns how long a message of a server may be.
func (a *aggregator) maxResult() int { return int(a.limits.Load().MaxResult) }

// finish waits for the requests under way.
func (a *aggregator) finish(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		a.requests.Wait()
		close(done)
	}()
	pause(a.cfg.EndWait, done, ctx.Done())
	a.close()
	<-done
}

func (a *aggregator) logf(format string, args ...any) {
	a.logMu.Lock()
	defer a.logMu.Unlock()
	fmt.Fprintln(a.cfg.Log, fs.PlainLine(fmt.Sprintf(format, args...)))
}

// serve reads the servers, then request after request.
func (a *aggregator) serve(in *wire.Reader) error {
	for first := true; ; first = false {
		line, err := in.Read()
		var long *wire.TooLong
		switch {
		case errors.Is(err, io.EOF):
			return io.EOF
		case errors.As(err, &long):
			a.refuse(long.ID, "the request: "+long.Error())
			continue
		case err != nil:
			return fmt.Errorf("reading requests: %w", err)
		}
		if first && line[0] == '[' {
			a.readServers(line)
			continue
		}
		if first {
			a.logf("the first line holds no array of servers: there are none")
			a.define(nil)
		}
		if stop := a.request(line); stop != nil {
			a.close()
			return a.out.Write(stop)
		}
	}
}

// readServers takes the first line.
func (a *aggregator) readServers(line []byte) {
	if !json.Valid(line) {
		a.logf("the first line is not JSON: there are no servers")
		line = []byte("[]")
	}
	if err := a.define(decodeServers(line)); err != nil {
		a.logf("%v", err)
	}
}

// refuse answers a line that is no request, if an id can be read from it.
func (a *aggregator) refuse(id json.RawMessage, why string) {
	a.logf("skipped a line: %s", why)
	if id != nil {
		a.answer(id, nil, errors.New(why))
	}
}

// answer writes the answer to a request: fields or an error.
func (a *aggregator) answer(id json.RawMessage, fields []byte, err error) {
	a.out.Write(encodeAnswer(id, fields, err))
}

func encodeAnswer(id json.RawMessage, fields []byte, err error) []byte {
	line := make([]byte, 0, len(fields)+64)
	line = append(append(line, `{"id":`...), id...)
	if err == nil {
		line = append(append(line, ','), fields...)
		return append(line, '}')
	}
	line = append(append(line, `,"error":`...), rawjson.Quote(err.Error())...)
	var sent *jsonrpc.Error
	var failed *unanswered
	switch {
	case errors.As(err, &sent):
		line = append(append(line, `,"rpc_error":`...), sent.Raw()...)
	case errors.As(err, &failed) && failed.fate != wire.NotSent:
		line = rawjson.AppendString(append(line, `,"fate":`...), string(failed.fate))
	}
	return append(line, '}')
}

// tell writes what a server sent: a notification, or a request with a rid. It
// returns when the line is written, so that a server cannot send more than the
// host reads.
func (a *aggregator) tell(what string, rid uint64, client, server, method string, params json.RawMessage, from *call) {
	line := append(append(append(make([]byte, 0, len(params)+256), `{"`...), what...), `":{`...)
	if rid != 0 {
		line = append(strconv.AppendUint(append(line, `"rid":`...), rid, 10), ',')
	}
	line = rawjson.AppendString(append(line, `"client":`...), client)
	line = rawjson.AppendString(append(line, `,"server":`...), server)
	line = rawjson.AppendString(append(line, `,"method":`...), method)
	if len(params) > 0 {
		line = append(append(line, `,"params":`...), params...)
	}
	line = append(line, `,"call":`...)
	if from != nil && from.request != nil {
		line = append(line, from.request...)
	} else {
		line = append(line, '0')
	}
	a.out.Write(append(line, "}}"...))
}

// maxAsked is the most requests of one server that may wait for answers.
const maxAsked = 64

// expectReply notes a request of a server that the host is to answer, and returns
// its rid, or 0 if too many wait.
func (a *aggregator) expectReply(next asked) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := 0
	for _, q := range a.asked {
		if q.c == next.c {
			waiting++
		}
	}
	if waiting >= maxAsked {
		return 0
	}
	a.rid++
	a.asked[a.rid] = next
	return a.rid
}

// dropReplies notes that a server's requests with an id, or all where that is nil,
// need no answer any more, and returns their rids.
func (a *aggregator) dropReplies(c *conn, id []byte) (rids []uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for rid, q := range a.asked {
		if q.c == c && (id == nil || bytes.Equal(q.id, id)) {
			delete(a.asked, rid)
			rids = append(rids, rid)
			if id == nil {
				continue
			}
			if whole := q.batch.Answer(nil); whole != nil {
				c.answer(whole)
			}
		}
	}
	return rids
}

// capabilities returns what a client key stands for.
func (a *aggregator) capabilities(client string) (wire.ClientParams, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, ok := a.clients[client]
	return c, ok
}

// close gives up everything under way, disconnects all servers and waits.
func (a *aggregator) close() {
	a.mu.Lock()
	for _, cancel := range a.inFlight {
		cancel(errClosed)
	}
	a.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range a.set.Swap(&set{}).order {
		all.Go(s.close)
	}
	all.Wait()
	a.requests.Wait()
	a.tasks.Wait()
}
