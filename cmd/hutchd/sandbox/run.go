package sandbox

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"hutch/aggd/trace"
	"hutch/fs"
	"hutch/mcpd/dispatch"
	"hutch/relay/guest"
)

const (
	// lateness is how much longer than its own time a command may take to end:
	// SIGTERM, the guest's grace, SIGKILL.
	lateness = 10 * time.Second
	// lingering is how long output is waited for of what a command has left behind.
	lingering = time.Second
	// tries is how often the end of a command is asked for that is another's.
	tries = 3
)

// run runs a command of cmd.run in the guest. It is a dispatch.Runner.
func (v *Sandbox) run(ctx context.Context, c dispatch.Command) (ran dispatch.Ran, err error) {
	g, err := v.Guest()
	if err != nil {
		return ran, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout+lateness, fmt.Errorf("%w: the guest does not answer", fs.ErrTimedOut))
	defer cancel()
	ran.Exec = "cmd-" + c.ID
	e, err := g.MakeExec(ctx, ran.Exec)
	if err != nil {
		return ran, v.WhyGone(err)
	}
	lost := false
	defer func() {
		if lost {
			return
		}
		ctx, cancel := context.WithTimeout(v.Context(), lateness)
		defer cancel()
		e.Remove(ctx) // which kills what is left of it
	}()
	if err := v.startCommand(ctx, g, e, c); err != nil {
		ran.Lost = guest.IsGone(err) // it may have begun
		return ran, v.WhyGone(err)
	}
	began := time.Now()
	out := readOutputs(ctx, e, c.MaxOutput)
	line, err := endOf(ctx, e.Wait, c.ID, v.Alert)
	ran.Duration = time.Since(began)
	out.settle(e, err == nil)
	ran.Stdout, ran.StdoutBytes = out.stdout.text, out.stdout.total
	ran.Stderr, ran.StderrBytes = out.stderr.text, out.stderr.total
	if err != nil {
		ran.Lost = true
		lost = ctx.Err() == nil && v.Ending().Why == "" // it is there still, and can be looked at
		return ran, v.WhyGone(err)
	}
	words := strings.Fields(line)
	code, notCode := strconv.Atoi(words[0])
	if ran.ExitCode = code; notCode != nil {
		ran.Signal = words[0]
	}
	ran.TimedOut = len(words) > 4 && words[4] == "timeout"
	ran.Reason = v.outOfMemory(line, began)
	return ran, nil
}

// startCommand starts a command with the variables of env/ as they are now.
func (v *Sandbox) startCommand(ctx context.Context, g *guest.Guest, e *guest.Exec, c dispatch.Command) error {
	if err := v.tellEnv(ctx, g); err != nil {
		return err
	}
	messages := [][]string{
		{"dispatch", c.ID}, append([]string{"scrub"}, c.Scrub...), {"timeout", c.Timeout.String()}, {"env", trace.EnvParent, c.Trace.String()},
	}
	if c.Dir != dispatch.Home { // where it starts anyway
		messages = append(messages, []string{"dir", c.Dir})
	}
	messages = append(messages, append([]string{"exec"}, c.Words...), []string{"eof"})
	var lines []string
	for _, words := range messages {
		lines = append(lines, fs.QuoteAll(words))
	}
	if err := e.Ctl(ctx, lines...); err != nil {
		return err
	}
	v.service.Count.Execs.Add(1)
	return nil
}

// endOf waits for the end of a command and returns what the guest says of it.
// What the guest says of another is no answer: alert is told, the guest is asked
// again, and the command stays as it is.
func endOf(ctx context.Context, wait func(context.Context) (string, error), id string, alert func(kind, rule, text string)) (string, error) {
	for range tries {
		line, err := wait(ctx)
		if err != nil {
			return "", err
		}
		if how, of, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " dispatch "); of == id && len(strings.Fields(how)) >= 4 {
			return how, nil
		}
		alert("cmd.mismatch", "", fmt.Sprintf("the guest answers %.100q to the dispatch %s", line, id))
	}
	return "", fmt.Errorf("%w: the guest's answer is not to dispatch %s: see exec/cmd-%s", fs.ErrIO, id, id)
}

// outputs are what a command writes, as it is read.
type outputs struct {
	stdout, stderr tail

	ctx     context.Context
	stop    context.CancelFunc
	reading sync.WaitGroup
}

// readOutputs begins to read the outputs of a command, of which it keeps the last
// most bytes each.
func readOutputs(ctx context.Context, e *guest.Exec, most int64) *outputs {
	o := new(outputs)
	o.ctx, o.stop = context.WithCancel(ctx)
	o.reading.Go(func() { o.stdout.read(o.ctx, e, "stdout", most) })
	o.reading.Go(func() { o.stderr.read(o.ctx, e, "stderr", most) })
	return o
}

// settle returns when all output is read. After a command has ended, those that it
// left behind may go on writing for a while; then they are killed, and at last
// given up on.
func (o *outputs) settle(e *guest.Exec, ended bool) {
	if ended {
		linger := time.AfterFunc(lingering, func() { e.Ctl(o.ctx, "kill") })
		giveUp := time.AfterFunc(2*lingering, o.stop)
		o.reading.Wait()
		linger.Stop()
		giveUp.Stop()
	}
	o.stop()
	o.reading.Wait()
}

// A tail is the end of a stream.
type tail struct {
	text  []byte
	total int64
}

// read reads a stream of the command to its end, and keeps the last most bytes.
func (t *tail) read(ctx context.Context, e *guest.Exec, name string, most int64) {
	f, err := e.Open(ctx, name, os.O_RDONLY)
	if err != nil {
		return
	}
	defer f.Close()
	p := make([]byte, 64<<10)
	for {
		n, err := f.ReadAt(ctx, p, t.total)
		if n == 0 || err != nil {
			break
		}
		t.total += int64(n)
		t.text = append(t.text, p[:n]...)
		if int64(len(t.text)) > 2*most {
			t.text = append(t.text[:0], t.text[int64(len(t.text))-most:]...)
		}
	}
	if int64(len(t.text)) > most {
		t.text = t.text[int64(len(t.text))-most:]
	}
}
