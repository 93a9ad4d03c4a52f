package aggd

import (
	"bytes"
	"time"

	"hutch/aggd/rawjson"
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
	fault error // why it means nothing
}

func (d definition) idleTimeout() time.Duration {
	return orDefault(d.IdleTimeout, idleTimeout)
}

func (d definition) connectTimeout() time.Duration {
	return orDefault(d.ConnectTimeout, connectTimeout)
}

func (d definition) callTimeout() time.Duration {
	return orDefault(d.CallTimeout, callTimeout)
}

func orDefault(d wire.Duration, other time.Duration) time.Duration {
	if d > 0 {
		return time.Duration(d)
	}
	return other
}

// sameConnection reports whether a connection made for d serves e too.
func (d definition) sameConnection(e definition) bool {
	for _, s := range []*definition{&d, &e} {
		s.AllowedTools, s.Pin, s.Source = nil, nil, ""
	}
	one, err1 := rawjson.Encode(d.Server)
	two, err2 := rawjson.Encode(e.Server)
	return d.fault == nil && e.fault == nil && err1 == nil && err2 == nil && bytes.Equal(one, two)
}
