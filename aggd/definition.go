package aggd

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
)

// The times of a server that does not set its own.
const (
	idleTimeout    = 10 * time.Minute
	connectTimeout = 30 * time.Second // npx fetches what it is to run the first time
	callTimeout    = 5 * time.Minute
)

// A definition is a server as the host defined it, with its defaults.
type definition struct {
	wire.Server
	fault  error   // why it means nothing
	served *served // of its server
	bearer *bearer // of its server; nil: BearerToken stays
}

func (d definition) idleTimeout() time.Duration    { return or(d.IdleTimeout, idleTimeout) }
func (d definition) connectTimeout() time.Duration { return or(d.ConnectTimeout, connectTimeout) }
func (d definition) callTimeout() time.Duration    { return or(d.CallTimeout, callTimeout) }

// silent is why a server that did not answer is not connected. One that is kept
// stands in no profile, where more time could be allowed.
func (d definition) silent() error {
	what := ""
	if !d.Keep {
		what = "; connect_timeout in its profile allows more"
	}
	return fmt.Errorf("no answer within %v%s", d.connectTimeout(), what)
}

// or returns a time that was set, or what it is otherwise.
func or(set wire.Duration, otherwise time.Duration) time.Duration {
	return cmp.Or(max(time.Duration(set), 0), otherwise)
}

// sameConnection reports whether a connection made for d serves e too.
func (d definition) sameConnection(e definition) bool {
	for _, s := range []*definition{&d, &e} {
		s.AllowedTools, s.Source = nil, ""
		if s.Renewed {
			s.BearerToken = ""
		}
	}
	return d.fault == nil && e.fault == nil && reflect.DeepEqual(d.Server, e.Server)
}

// checkDefinition returns the state of a server that is not to be connected,
// and why.
func checkDefinition(d definition) (state string, err error) {
	if err := jsonrpc.CheckServer(d.Name); err != nil {
		return wire.Failed, err
	}
	switch {
	case d.fault != nil:
		return wire.Failed, d.fault
	case !d.Enabled:
		return wire.Disabled, nil
	case d.UnsupportedStdio:
		return wire.Unsupported, errors.New("a stdio server that the host does not start")
	}
	switch d.Type {
	case "", "stdio", "http", "streamable", "streamable-http", "sse":
	default:
		return wire.Unsupported, fmt.Errorf("unknown transport %q", d.Type)
	}
	switch {
	case d.Stdio() && d.Descriptor == "":
		return wire.Failed, errors.New("no command")
	case !d.Stdio() && d.URL == "":
		return wire.Failed, errors.New("neither url nor command")
	case !d.Stdio() && !strings.HasPrefix(d.URL, "http://") && !strings.HasPrefix(d.URL, "https://"):
		return wire.Failed, errors.New("the url is neither http nor https")
	}
	return "", nil
}
