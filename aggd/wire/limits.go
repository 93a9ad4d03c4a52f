package wire

import "cmp"

// The limits of messages that are not set.
const (
	MaxRequest = 1 << 20
	MaxResult  = 16 << 20
	MaxDepth   = 512
)

// MaxLimit is the most bytes that any limit may be.
const MaxLimit = 64 << 20

// Limits are those of the messages that pass to servers and from them; what is 0
// is the default.
type Limits struct {
	MaxRequest int64 `json:"max_request,omitempty"` // bytes of a request to a server
	MaxResult  int64 `json:"max_result,omitempty"`  // bytes of a message of a server
	MaxDepth   int   `json:"max_depth,omitempty"`   // how deep either may be nested
}

// WithDefaults returns the limits that hold.
func (l Limits) WithDefaults() Limits {
	return Limits{
		MaxRequest: min(cmp.Or(max(l.MaxRequest, 0), MaxRequest), MaxLimit),
		MaxResult:  min(cmp.Or(max(l.MaxResult, 0), MaxResult), MaxLimit),
		MaxDepth:   min(cmp.Or(max(l.MaxDepth, 0), MaxDepth), MaxDepth),
	}
}

// Line returns how long a line to the aggregator may be: one that carries a
// request, or its servers.
func (l Limits) Line() int { return int(max(l.MaxRequest, MaxRequest)) }
