package mcpd

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
)

// commands is what cmd.run needs to know.
type commands struct {
	config  atomic.Pointer[dispatch.Config]
	running atomic.Int32
}

// A commandCall is what a call runs in the guest.
type commandCall struct {
	dispatch.Command
	config *dispatch.Config
	wrong  error // what is wrong with the call's arguments

	// What came of it, once it ran.
	began time.Time
	ran   dispatch.Ran
	err   error
}

// SetCommands says whether and for how long cmd.run may run commands. It counts
// from the next call on; the list of tools is as before until Reload.
func (e *Endpoint) SetCommands(c dispatch.Config) {
	c.Timeout = cmp.Or(c.Timeout, dispatch.Timeout)
	c.MaxOutput = cmp.Or(c.MaxOutput, dispatch.MaxOutput)
	c.MaxConcurrent = cmp.Or(c.MaxConcurrent, dispatch.MaxConcurrent)
	e.commands.config.Store(&c)
}

// runs tells whether there is cmd.run.
func (e *Endpoint) runs() bool {
	c := e.commands.config.Load()
	return e.cfg.Run != nil && c != nil && c.Enabled
}

// ownTools are the tools that no server has; hides says which are not shown.
func (e *Endpoint) ownTools() []wire.Item {
	tools := e.work.Tools()
	if e.cfg.Run != nil {
		tools = append([]wire.Item{dispatch.Item()}, tools...)
	}
	return tools
}

func isCommand(c *call) bool { return c.tool == dispatch.Tool && c.session.e.runs() }

func planCommand(_ context.Context, c *call) (step, *Error) {
	c.server, c.own = dispatch.Server, c.tool
	c.schema = c.catalog()[wire.Tools].schema(c.tool)
	c.command = &commandCall{config: c.session.e.commands.config.Load()}
	c.command.plan(c.message.params.get(pArguments))
	return c.runCommand, nil
}

// plan reads the arguments of the call.
func (x *commandCall) plan(args json.RawMessage) {
	x.Command, x.wrong = x.config.Plan(args)
	x.ID = rand.Text()
}

// decideCommand asks the policy about the command. An allow here does not replace
// the call's verdict in the ledger.
func (c *call) decideCommand() *Error {
	x := c.command
	if x == nil || x.wrong != nil {
		return nil
	}
	r := c.question(nil)
	r.On, r.Command, r.Words, r.Dir = policy.OnExec, x.Words[0], x.Words[1:], x.Dir
	if err := c.decidePart(r); err != nil {
		return err
	}
	running := &c.session.e.commands.running
	if n := int(running.Add(1)); n > x.config.MaxConcurrent {
		running.Add(-1)
		return c.block(r, policy.Decision{
			Rule: "cmd.max_concurrent", Code: policy.ConcurrencyExceeded,
			Reason: fmt.Sprintf("%d commands run already: try again when one has ended", x.config.MaxConcurrent),
		})
	}
	c.releases = append(c.releases, func() { running.Add(-1) })
	return nil
}

// runCommand is the step of a call of cmd.run.
func (c *call) runCommand(ctx context.Context) (json.RawMessage, *Error) {
	x, e := c.command, c.session.e
	if x.wrong != nil {
		return dispatch.Refusal(x.wrong), nil
	}
	x.began, x.Trace = time.Now(), c.trace.Child()
	stop := ledger.IfLong(func() {
		c.row.db.RowBegun(e.ctx, ledger.Execs, ledger.Row{
			"timestamp": x.began, "exec_id": "cmd-" + x.ID, "command": fs.QuoteAll(x.Words), "source": dispatch.Tool,
			"process_name": c.process, "mcp_call_id": c.row.id, "trace_id": x.Trace,
		})
	})
	x.ran, x.err = e.cfg.Run(ctx, x.Command)
	stop()
	switch {
	case x.err == nil:
		return dispatch.Result(e.cfg.VM(), x.Command, x.ran), nil
	case ctx.Err() != nil:
		return nil, ended(ctx)
	case x.ran.Lost:
		return nil, c.unanswered(ctx, wire.Unknown, x.err)
	}
	return dispatch.Refusal(errors.New(e.redact(x.err.Error()))), nil
}

// recordCommand writes down the command that the call ran.
func (c *call) recordCommand() {
	x := c.command
	if x == nil || x.began.IsZero() {
		return
	}
	r := ledger.Row{
		"timestamp": x.began, "exec_id": x.ran.Exec, "command": fs.QuoteAll(x.Words), "duration_ms": time.Since(x.began),
		"stdout_preview": x.ran.Stdout, "stderr_preview": x.ran.Stderr, "stdout_bytes": x.ran.StdoutBytes, "stderr_bytes": x.ran.StderrBytes,
		"source": dispatch.Tool, "process_name": c.process, "mcp_call_id": c.row.id, "trace_id": x.Trace,
	}
	switch {
	case x.err != nil:
		r["error_message"] = fs.Text(x.err)
	case x.ran.TimedOut:
		r["error_message"] = "timed out"
		r["signal"] = x.ran.Signal
	case x.ran.Signal != "":
		r["signal"] = x.ran.Signal
	default:
		r["exit_code"] = x.ran.ExitCode
	}
	if x.ran.Reason != "" {
		r["error_message"] = x.ran.Reason
	}
	c.row.db.Queue(c.session.e.ctx, ledger.Execs, r)
}
