// Package relay carries MCP between a program in a guest, which takes it for
// a server on stdin and stdout, and the host's endpoint on port 5002. A line
// of stdin is one JSON-RPC message and becomes one message of frames, and
// the other way round; nothing but the envelope is read.
//
// A connection can be lost: hutchd is started anew, the sandbox restored from
// a checkpoint. Then every request under way is answered with error -32001,
// as nobody knows what became of it, the relay connects again, says
// initialize once more in the client's words, keeps the answer to itself, and
// the client's session goes on.
package relay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/trace"
	"hutch/mcpd/frame"
	"hutch/mcpd/seal"
	"hutch/relay/port"
)

// patience is how long a message waits for a connection.
const patience = 10 * time.Second

// A relay is one program's session.
type relay struct {
	version uint8
	limit   int // of a message
	name    string
	signer  *seal.Signer  // of requests; nil: they go as they are
	trace   trace.Context // of requests that say none

	writeMu sync.Mutex // held for the write of one line
	stdout  io.Writer

	mu          sync.Mutex    // guards what follows
	link        *link         // nil while there is no connection
	came        chan struct{} // closed when there is
	initialize  []byte        // the client's request, as it was
	initialized []byte        // and its notification
	answered    bool          // initialize was
	batches     bool          // there may be batches
	kept        int           // bytes of answers that batches keep
}

// Run relays until stdin ends and everything is answered, or ctx is done; it
// closes stdin then, if that can be closed. The name is that of the program
// on the other side of stdin, as the host will show it. Frames are those of
// version 2, or of 1 if $HUTCH_RELAY_VERSION is 1. The requests of the program are
// signed if the relay is sealed. Those that say no trace become part of the one of
// $TRACEPARENT, if that is valid.
func Run(ctx context.Context, stdin io.Reader, stdout io.Writer, dial func(context.Context) (net.Conn, error), name string, sealed bool) error {
	r := &relay{
		version: frame.Version2, limit: frame.MaxMessage,
		name: frame.SanitizeName(name), stdout: stdout, came: make(chan struct{}), trace: trace.FromEnv(),
	}
	if os.Getenv("HUTCH_RELAY_VERSION") == "1" {
		r.version, r.limit = frame.Version1, frame.MaxFrame-16-len(r.name)
	}
	if sealed {
		var err error
		if r.signer, err = seal.NewSigner(); err != nil {
			return err
		}
		r.limit -= seal.Overhead
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c, ok := stdin.(io.Closer); ok {
		stop := context.AfterFunc(ctx, func() { c.Close() })
		defer stop()
	}
	var serving sync.WaitGroup
	serving.Go(func() { port.Redial(ctx, dial, func(conn net.Conn) bool { return r.serve(ctx, conn) }) })
	err := r.read(ctx, stdin)
	if err == nil {
		r.drain(ctx)
	}
	cancel()
	serving.Wait()
	return err
}

// read takes stdin's lines until its end.
func (r *relay) read(ctx context.Context, stdin io.Reader) error {
	in := bufio.NewReaderSize(stdin, 64<<10)
	for {
		line, size, err := readLine(in, r.limit)
		if size > len(line) {
			r.refuse(line, size)
		} else if len(line) > 0 && r.isBatch(line) {
			r.sendBatch(ctx, line)
		} else if len(line) > 0 {
			r.pass(ctx, parse(line))
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("read stdin: %w", err)
		}
	}
}

// readLine returns the next line, without the blanks around it, and its size.
// Of one over the limit it returns the start.
func readLine(in *bufio.Reader, limit int) (line []byte, size int, err error) {
	for {
		part, err := in.ReadSlice('\n')
		size += len(part)
		if room := limit + 2 - len(line); room > 0 {
			line = append(line, part[:min(len(part), room)]...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		whole := len(line) == size
		if line = bytes.TrimSpace(line); whole {
			size = len(line)
		}
		if size > limit {
			line = line[:min(len(line), limit)]
		}
		return line, size, err
	}
}

// refuse answers a message that is too large, of which there is the start:
// the client's request, or for the client the host's.
func (r *relay) refuse(start []byte, size int) {
	m := parse(start)
	why := failure(m.id, jsonrpc.CodeInvalid, fmt.Sprintf("message too large: %d bytes, at most %d", size, r.limit))
	r.mu.Lock()
	l := r.link
	r.mu.Unlock()
	if l != nil && m.method == "" && l.owes(m.id) {
		l.send(&message{line: why, kind: response, id: m.id})
		return
	}
	r.print(why)
}

// pass sends a message on the connection there is, or the next one.
func (r *relay) pass(ctx context.Context, m message) {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for kept := false; ; kept = true {
		l, err := r.linked(wait)
		switch {
		case err != nil:
			if m.kind == request || m.kind == opaque {
				r.answer(m.part, failure(m.id, jsonrpc.CodeLost, "no connection to the host"))
			}
			return
		case !kept:
			r.remember(&m)
		case l.greeted && m.method == "initialize":
			return // the connection began with it
		}
		if l.send(&m) {
			return
		}
	}
}

// remember keeps what a new connection has to be told.
func (r *relay) remember(m *message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch m.method {
	case "initialize":
		r.initialize, r.initialized, r.answered = bytes.Clone(m.line), nil, false
	case "notifications/initialized":
		r.initialized = bytes.Clone(m.line)
	}
}

// linked returns the connection, as soon as there is one.
func (r *relay) linked(ctx context.Context) (*link, error) {
	for {
		r.mu.Lock()
		l, came := r.link, r.came
		r.mu.Unlock()
		if l != nil {
			return l, nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// print writes a line to stdout.
func (r *relay) print(line []byte) {
	line = rawjson.OneLine(line)
	r.writeMu.Lock()
	defer r.writeMu.Unlock()
	if len(line) > 64<<10 { // a second write costs less than a copy
		r.stdout.Write(line)
		line = nil
	}
	r.stdout.Write(append(line[:len(line):len(line)], '\n'))
}

// fail answers a request with an error.
func (r *relay) fail(id []byte, code int, text string) { r.print(failure(id, code, text)) }

// drain says that nothing more will be asked, and waits for the answers.
func (r *relay) drain(ctx context.Context) {
	r.mu.Lock()
	l := r.link
	r.mu.Unlock()
	if l == nil {
		return
	}
	select {
	case <-l.halfClose():
	case <-ctx.Done():
	}
}
