package alone

import (
	"encoding/json"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// notified takes what a server says unasked, and returns when the client has it: no
// server can say more than the client reads.
func (f *face) notified(n wire.Notification) {
	switch n.Method {
	case wire.Tools.Changed:
		f.tools.changed(n.Server)
	case wire.Resources.Changed, wire.Prompts.Changed, "notifications/message":
	case "notifications/resources/updated":
		uri, ok := f.names.join(n.Server, rawjson.GetString(n.Params, "uri"))
		params, err := rawjson.SetString(n.Params, uri, "uri")
		if err != nil || !ok {
			return
		}
		n.Params = params
	default:
		return
	}
	if f.cfg.All {
		f.write(jsonrpc.Notification(n.Method, n.Params))
	}
}

// started takes note that the aggregator runs, perhaps not for the first time: servers
// may have changed then.
func (f *face) started() {
	if !f.ran.Swap(true) {
		return
	}
	for server := range f.names.byName {
		f.tools.changed(server)
	}
	if f.cfg.All {
		for _, l := range []*wire.List{wire.Tools, wire.Resources, wire.Prompts} {
			f.write(jsonrpc.Notification(l.Changed, nil))
		}
	}
}

// progress passes on how far a call has got.
func (f *face) progress(params json.RawMessage) {
	f.write(jsonrpc.Notification("notifications/progress", params))
}
