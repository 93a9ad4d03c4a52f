package hostmcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/fs"
)

type (
	asks struct {
		Asks []json.RawMessage `json:"asks"`
	}
	answered struct {
		ID     int    `json:"id"`
		Answer string `json:"answer"`
	}
	judged struct {
		Decision json.RawMessage `json:"decision"`
	}
)

// asks lists what waits for a decision. Where nothing does, it waits for it as
// long as the call says.
func (c *call) asks(ctx context.Context) (any, error) {
	list, err := c.waiting(ctx)
	if wait := c.args.number("wait"); err == nil && len(list) == 0 && wait > 0 {
		if err = c.awaitAsk(ctx, time.Duration(wait)*time.Second); err == nil {
			list, err = c.waiting(ctx)
		}
	}
	return asks{list}, err
}

func (c *call) waiting(ctx context.Context) ([]json.RawMessage, error) {
	names, err := c.t.folders(ctx, "asks")
	list := []json.RawMessage{}
	slices.SortFunc(names, func(a, b string) int { return number(a) - number(b) })
	for _, name := range names {
		line, err := c.t.text(ctx, path.Join("asks", name, "request"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was answered meanwhile
		}
		if err != nil {
			return nil, err
		}
		of, err := lines(line)
		if err != nil {
			return nil, err
		}
		list = append(list, of...)
	}
	return list, err
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// awaitAsk waits until something asks, or so long.
func (c *call) awaitAsk(ctx context.Context, most time.Duration) error {
	f, err := c.t.open(ctx, "asks/next", os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.close()
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if _, err = f.read(waiting, make([]byte, 64<<10)); waiting.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

func (c *call) answer(ctx context.Context) (any, error) {
	id, word := c.args.number("id"), c.args.text("answer")
	if reason := c.args.text("reason"); reason != "" {
		if word != "deny" {
			return nil, fmt.Errorf("%w: only deny takes a reason", fs.ErrInvalid)
		}
		word += " " + fs.PlainLine(reason)
	}
	return answered{id, word}, c.t.tell(ctx, path.Join("asks", strconv.Itoa(id), "answer"), word)
}

// policyTest asks what a sandbox's policy would decide of an event.
func (c *call) policyTest(ctx context.Context) (any, error) {
	dir := c.dir()
	event, err := json.Marshal(c.args["event"])
	if err != nil {
		return nil, err
	}
	text, err := c.t.ask(ctx, dir+"/policy/test", string(event))
	if err != nil {
		return nil, err
	}
	decisions, err := lines(text)
	if err == nil && len(decisions) != 1 {
		err = fmt.Errorf("%w: policy/test of %s answered %d lines", fs.ErrIO, strings.TrimPrefix(dir, "vm/"), len(decisions))
	}
	if err != nil {
		return nil, err
	}
	return judged{decisions[0]}, nil
}
