package hostmcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

var (
	commandParam = param{name: "command", kind: text, must: true, doc: "for /bin/sh -c"}
	execParams   = []param{
		{name: "dir", kind: text, doc: "folder to start in; /workspace if not said"},
		{name: "user", kind: text, doc: "user of the sandbox to run it as, by number or name"},
		{name: "limit", kind: whole, def: 128 << 10, max: maxPart, doc: "most bytes of stdout and of stderr each; output has the rest, but not of run"},
	}
)

// An ended is how a command ended and what it printed.
type ended struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"` // 128 and the number of the signal that ended it; 124 if its time was up
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Reason   string `json:"reason,omitempty"` // why it was ended

	DurationMs  int64 `json:"duration_ms"`
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`

	Exec      string `json:"exec"`                  // its name, for output and undo
	Truncated bool   `json:"truncated,omitempty"`   // output has the rest of it
	Open      bool   `json:"output_open,omitempty"` // others that it left running had it open, and were ended
}

func (c *call) exec(ctx context.Context) (any, error) {
	return c.execute(ctx, c.dir(), c.args.textMap("env"), true)
}

// run does a command in an anonymous sandbox, which goes with the connection.
func (c *call) run(ctx context.Context) (any, error) {
	image, copied, err := c.origin(ctx, c.args.text("image"), "")
	if err == nil && copied {
		err = fmt.Errorf("%w: %q is a sandbox, not an image: exec runs a command in it", fs.ErrInvalid, c.args.text("image"))
	}
	if err != nil {
		return nil, err
	}
	ctl, name, err := c.t.clone(ctx, "vm")
	for _, m := range append(c.settings(image), "start") {
		if err == nil {
			err = ctl.tell(ctx, m)
		}
	}
	if err != nil {
		return nil, err
	}
	result, err := c.execute(ctx, path.Join("vm", name), c.args.textMap("env"), false)
	if err == nil {
		err = ctl.tell(ctx, "kill")
	}
	return result, err
}

// hangLimit is how long after its time a command may take to end.
const hangLimit = 15 * time.Second

// execute runs the command of a call. It goes with the connection, so when the
// call is cancelled.
func (c *call) execute(ctx context.Context, vm string, env map[string]string, keep bool) (any, error) {
	give, err := c.take(ctx, 2*c.args.number("limit"))
	if err != nil {
		return nil, err
	}
	defer give()
	seconds := max(c.args.number("timeout"), 1)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(seconds)*time.Second+hangLimit,
		fmt.Errorf("%w: the sandbox does not end the command within %v after its %d s", fs.ErrTimedOut, hangLimit, seconds))
	defer cancel()
	ctl, name, err := c.t.clone(ctx, path.Join(vm, "exec"))
	if err != nil {
		return nil, err
	}
	for _, m := range c.execMessages(seconds, env) {
		if err := ctl.tell(ctx, m); err != nil {
			return nil, err
		}
	}
	e, err := c.attend(ctx, path.Join(vm, "exec", name))
	if err != nil {
		return nil, err
	}
	if e.Exec = name; e.Truncated && keep {
		c.h.holdExec(c, path.Base(vm), name)
	}
	return *e, nil
}

// execMessages are the control messages that have a call's command run.
func (c *call) execMessages(seconds int, env map[string]string) []string {
	var messages []string
	if seconds > 0 {
		messages = append(messages, fmt.Sprintf("timeout %ds", seconds))
	}
	if d := c.args.text("dir"); d != "" {
		messages = append(messages, "dir "+fs.Quote(d))
	}
	if u := c.args.text("user"); u != "" {
		messages = append(messages, "user "+fs.Quote(u))
	}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		messages = append(messages, "env "+fs.Quote(k)+" "+fs.Quote(env[k]))
	}
	return append(messages, "exec /bin/sh -c "+fs.Quote(c.args.text("command")), "eof")
}

const (
	// lagLimit is how long output may fail to come after a command has ended:
	// another that it left behind may hold it open for ever.
	lagLimit = 2 * time.Second
	maxLags  = 10 // after which it is given up, though it comes
)

// attend reads a command's files until it has ended.
func (c *call) attend(ctx context.Context, dir string) (*ended, error) {
	limit := c.args.number("limit")
	stdout, stderr := &output{name: "stdout", limit: limit}, &output{name: "stderr", limit: limit}
	reading, cut := context.WithCancel(ctx)
	defer cut()
	var copying sync.WaitGroup
	var errs [2]error
	said := c.reporter()
	for i, o := range []*output{stdout, stderr} {
		copying.Go(func() { errs[i] = o.fill(reading, c.t, path.Join(dir, o.name), said) })
	}
	line, err := c.t.text(ctx, path.Join(dir, "wait"))
	over := make(chan struct{})
	go func() {
		copying.Wait()
		close(over)
	}()
	left := awaitOutput(over, cut, stdout, stderr)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !left {
		err = errors.Join(err, errs[0], errs[1])
	}
	if err != nil {
		return nil, err
	}
	e := &ended{Stdout: stdout.text(), Stderr: stderr.text(), StdoutBytes: stdout.n.Load(), StderrBytes: stderr.n.Load(), Open: left}
	e.Truncated = stdout.cut() || stderr.cut()
	e.judge(line, c.args.number("timeout"))
	return e, nil
}

// awaitOutput waits for the end of the output of a command that has ended, and
// cuts it off, and says so, where others hold it open.
func awaitOutput(over <-chan struct{}, cut func(), of ...*output) (left bool) {
	tick := time.NewTicker(lagLimit)
	defer tick.Stop()
	var had int64
	for lags := 0; ; lags++ {
		var has int64
		telling := false
		for _, o := range of {
			has += o.n.Load()
			telling = telling || o.telling.Load()
		}
		if lags > 0 && !telling && (has == had || lags > maxLags) {
			cut()
			<-over
			return true
		}
		had = has
		select {
		case <-tick.C:
		case <-over:
			return false
		}
	}
}

// reporter returns what tells the client of output as it comes, if that wants
// to know. A slow client slows the command down.
func (c *call) reporter() func(p []byte) {
	if c.progress == nil {
		return func([]byte) {}
	}
	var mu sync.Mutex // guards done
	done := 0
	return func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		done += len(p)
		c.progress(done, strings.ToValidUTF8(string(p), "\uFFFD"))
	}
}

// An output is what a command prints to one of its files.
type output struct {
	name    string
	limit   int
	kept    []byte       // of what came, the first
	n       atomic.Int64 // how much came
	telling atomic.Bool  // the client reads it just now
}

// cut says whether not all that came was kept.
func (o *output) cut() bool { return o.n.Load() > int64(len(o.kept)) }

// fill reads a file until it ends. What is more than the limit is counted, and
// is hutchd's to keep.
func (o *output) fill(ctx context.Context, t *tree, name string, said func([]byte)) error {
	f, err := t.open(ctx, name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.close()
	for p := make([]byte, 64<<10); ; {
		n, err := f.read(ctx, p)
		if err != nil || n == 0 {
			return err
		}
		o.n.Add(int64(n))
		if room := min(n, o.limit-len(o.kept)); room > 0 {
			o.kept = append(o.kept, p[:room]...)
			o.telling.Store(true)
			said(p[:room])
			o.telling.Store(false)
		}
	}
}

func (o *output) text() string { return strings.ToValidUTF8(string(o.kept), "\uFFFD") }

// judge reads the line that wait gave: status or signal, times, and what
// ended it.
func (e *ended) judge(line string, seconds int) {
	words, err := fs.Words(strings.TrimSpace(line))
	if err != nil || len(words) == 0 {
		words = strings.Fields(line + " unknown")
	}
	if len(words) > 3 {
		s, _ := strconv.ParseFloat(words[3], 64)
		e.DurationMs = int64(s * 1000)
	}
	code, err := strconv.Atoi(words[0])
	if e.ExitCode = code; err != nil {
		e.Signal = words[0]
		e.ExitCode = 128 + int(unix.SignalNum(e.Signal))
	}
	if _, why, ok := strings.Cut(strings.TrimSpace(line), " vm "); ok {
		e.Reason = "the sandbox ended: " + why
	}
	if strings.HasSuffix(strings.TrimSpace(line), " timeout") {
		e.TimedOut, e.ExitCode = true, 124
		e.Reason = fmt.Sprintf("killed: it ran for longer than its timeout of %d s", seconds)
	}
}

type outputPart struct {
	Exec    string `json:"exec"`
	Running bool   `json:"running"`
	Result  string `json:"result,omitempty"` // exit status or signal, and times, of what has ended
	page
}

// output reads what a command printed that exec cut off.
func (c *call) output(ctx context.Context) (any, error) {
	dir := c.dir()
	give, err := c.take(ctx, c.args.number("limit"))
	if err != nil {
		return nil, err
	}
	defer give()
	name := c.args.text("exec")
	f, err := c.t.open(ctx, path.Join(dir, "exec", name, c.args.text("stream")), os.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.close()
	status, err := c.t.text(ctx, path.Join(dir, "exec", name, "status"))
	if err != nil {
		return nil, err
	}
	said := pairs(status)
	whole, from := extent(said[c.args.text("stream")])
	start := max(int64(c.args.number("offset")), from)
	f.off = start
	part, err := f.part(ctx, int64(c.args.number("limit")))
	if err != nil && !again(err) {
		return nil, err
	}
	told, err := c.page(part, start, max(whole, f.off))
	return outputPart{name, strings.HasPrefix(status, "running\n"), said["result"], told}, err
}

// extent returns how much came of an output, and from where on it is kept, as a
// command's status says: "20000000 from 3222784".
func extent(of string) (whole, from int64) {
	words := strings.Fields(of)
	if len(words) > 0 {
		whole, _ = strconv.ParseInt(words[0], 10, 64)
	}
	if len(words) == 3 {
		from, _ = strconv.ParseInt(words[2], 10, 64)
	}
	return whole, from
}
