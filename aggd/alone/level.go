package alone

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// levelWait is how long servers have to take a level.
const levelWait = 5 * time.Second

// setLevel answers logging/setLevel: the servers that are connected and log are told,
// and what one of them makes of it is its own affair.
func (f *face) setLevel(ctx context.Context, q jsonrpc.Message) (json.RawMessage, *jsonrpc.Error) {
	level, wrong := param(q, "level")
	if wrong != nil {
		return nil, wrong
	}
	if !slices.Contains(jsonrpc.Levels, level) {
		return nil, jsonrpc.Errorf(jsonrpc.CodeParams, "Invalid params: no level is called %.40s", level)
	}
	all, err := f.child.Servers(ctx)
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternal, "%s", said(err))
	}
	ctx, cancel := context.WithTimeout(ctx, levelWait)
	defer cancel()
	var each sync.WaitGroup
	for _, s := range all {
		if s.Connected && rawjson.Get(s.Capabilities, "logging") != nil {
			each.Go(func() {
				f.child.Call(ctx, wire.Call{Server: s.Name, Method: q.Method, Params: q.Params})
			})
		}
	}
	each.Wait()
	return []byte("{}"), nil
}
