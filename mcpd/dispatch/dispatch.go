// Package dispatch is the tool cmd.run: it reads a call's arguments, and puts what
// came of the command as AEGIS does.
// The command itself runs in the guest, without a shell, by a Runner.
package dispatch

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/trace"
	"hutch/aggd/wire"
)

// Tool is the tool's name, and Server the name that the ledger and the policy
// have for its server.
const (
	Tool   = "cmd.run"
	Server = "cmd"
)

// Home is where a command starts, if the call does not say it.
const Home = "/workspace"

// A Config says whether and for how long commands may run; which, the policy says.
type Config struct {
	Enabled       bool
	Timeout       time.Duration
	MaxOutput     int64    // bytes of each stream that the answer has
	MaxConcurrent int      // commands at once
	Deny          []string // what the names of variables begin with that a command does not get
}

// What holds where a Config does not say it.
const (
	Timeout       = 60 * time.Second
	MaxOutput     = 1 << 20
	MaxConcurrent = 4
)

// denied are what the names of variables begin with that never get to a command.
var denied = []string{
	"AWS_", "AZURE_", "GCP_", "GOOGLE_", "GITHUB_TOKEN", "CI_", "AEGIS_SECRET", "AEGIS_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY",
}

// A Command is what a Runner is to run.
type Command struct {
	ID        string // which the guest has to give back with what came of it
	Words     []string
	Dir       string
	Timeout   time.Duration
	MaxOutput int64
	Scrub     []string      // what the names of variables begin with that it does not get
	Trace     trace.Context // that it is part of
}

// A Ran is what came of a Command.
type Ran struct {
	Exec                     string // its name in the VM
	ExitCode                 int
	Signal                   string // that ended it, "" if none did
	TimedOut                 bool
	Lost                     bool   // it began, and nobody knows how it ended
	Reason                   string // why it was killed, "" if that is not known
	Stdout, Stderr           []byte // their ends
	StdoutBytes, StderrBytes int64  // that it wrote
	Duration                 time.Duration
}

// A Runner runs a command in the guest, and ends it with all that it started
// when its time is up or ctx ends.
type Runner func(context.Context, Command) (Ran, error)

//go:embed tool.json
var shown []byte

// Item is the tool as tools/list shows it.
func Item() wire.Item {
	var line bytes.Buffer
	json.Compact(&line, shown)
	return wire.Item{Name: Tool, Original: Tool, Server: Server, Raw: line.Bytes()}
}

type arguments struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Cwd     string   `json:"cwd"`
	Timeout int64    `json:"timeout_secs"`
}

// Plan reads a call's arguments. Its error is for the model to read.
func (c *Config) Plan(args json.RawMessage) (Command, error) {
	var a arguments
	if err := rawjson.Decode(args, &a); err != nil {
		return Command{}, fmt.Errorf("arguments: %w", err)
	}
	if a.Command == "" {
		return Command{}, errors.New("command is missing")
	}
	command := Command{
		Words: append([]string{a.Command}, a.Args...), Dir: Home, Timeout: c.Timeout, MaxOutput: c.MaxOutput,
		Scrub: append(denied[:len(denied):len(denied)], c.Deny...),
	}
	for _, w := range append([]string{a.Cwd}, command.Words...) {
		if strings.Contains(w, "\x00") {
			return Command{}, fmt.Errorf("%.64q has a NUL in it", w)
		}
	}
	if a.Cwd != "" {
		if !path.IsAbs(a.Cwd) {
			a.Cwd = path.Join(Home, a.Cwd)
		}
		command.Dir = path.Clean(a.Cwd)
		if !below(command.Dir, Home) {
			return Command{}, &Outside{a.Cwd}
		}
	}
	if a.Timeout < 0 {
		return Command{}, fmt.Errorf("timeout_secs: %d is negative", a.Timeout)
	}
	if asked := time.Duration(a.Timeout) * time.Second; a.Timeout > 0 && a.Timeout < int64(c.Timeout/time.Second) {
		command.Timeout = asked
	}
	return command, nil
}

// Outside is the error of a command that is to run in a folder where none may.
type Outside struct{ Dir string }

func (o *Outside) Error() string { return fmt.Sprintf("cwd %q is outside %s", o.Dir, Home) }

func below(name, folder string) bool {
	return name == folder || folder == "/" || strings.HasPrefix(name, folder+"/")
}

// A dispatchResult is AEGIS's.
type dispatchResult struct {
	Type        string `json:"type"`
	ExecutionID string `json:"execution_id"`
	DispatchID  string `json:"dispatch_id"`
	ExitCode    int    `json:"exit_code"`
	Stdout      string `json:"stdout"`
	Stderr      string `json:"stderr"`
	DurationMS  int64  `json:"duration_ms"`
	Truncated   bool   `json:"truncated"`
	Reason      string `json:"reason,omitempty"` // ours: why it was killed
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type result struct {
	Content    []textBlock `json:"content"`
	Structured any         `json:"structuredContent,omitempty"`
	IsError    bool        `json:"isError,omitempty"`
}

// Result puts what came of a command as the tools/call result.
func Result(vm string, cmd Command, r Ran) json.RawMessage {
	d := dispatchResult{
		Type: "dispatch_result", ExecutionID: vm, DispatchID: cmd.ID, ExitCode: r.ExitCode,
		Stdout: strings.ToValidUTF8(string(r.Stdout), "\uFFFD"), Stderr: strings.ToValidUTF8(string(r.Stderr), "\uFFFD"),
		DurationMS: r.Duration.Milliseconds(),
		Truncated:  int64(len(r.Stdout)) < r.StdoutBytes || int64(len(r.Stderr)) < r.StderrBytes,
	}
	how := fmt.Sprintf("exit status %d", d.ExitCode)
	switch {
	case r.TimedOut:
		d.ExitCode = -1
		how = fmt.Sprintf("[AEGIS] Command timed out after %gs", cmd.Timeout.Seconds())
		if d.Stderr != "" && !strings.HasSuffix(d.Stderr, "\n") {
			d.Stderr += "\n"
		}
		d.Stderr += how + "\n"
	case r.Signal != "":
		d.ExitCode = -1
		how = "ended by " + r.Signal
	}
	if d.Reason = r.Reason; d.Reason != "" {
		how += ": " + d.Reason
	}
	text := how
	if d.Truncated {
		text += " (only the ends of the output are shown)"
	}
	for _, s := range []string{d.Stdout, d.Stderr} {
		if s != "" {
			text += "\n" + s
		}
	}
	return encode(result{Content: []textBlock{{"text", text}}, Structured: d, IsError: d.ExitCode != 0})
}

// Refusal is the result of a call that ran nothing.
func Refusal(err error) json.RawMessage {
	return encode(result{Content: []textBlock{{"text", Tool + ": " + err.Error()}}, IsError: true})
}

func encode(r result) json.RawMessage {
	b, err := rawjson.Encode(r)
	if err != nil {
		return Refusal(err)
	}
	return b
}
