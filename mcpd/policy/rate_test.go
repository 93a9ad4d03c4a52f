package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestRates(t *testing.T) {
	config := Config{Capabilities: []Capability{
		{Name: "slow", Tools: []string{"a.*"}, Rate: "2/10s"},
		{Name: "spare", Tools: []string{"a.x"}, Rate: "1/1h"},
	}}
	p := compiled(t, config)
	clock := time.Now()
	p.now = func() time.Time { return clock }
	try := func(tool string, want *Code, after time.Duration) {
		t.Helper()
		d := p.Decide(toolCall(tool, ""))
		if d.Code != want || d.RetryAfter != after || want != nil && d.Code.Class != Recoverable {
			t.Errorf("%s: %+v", tool, d)
		}
	}
	for range 9 {
		e := toolCall("a.y", "")
		e.Trial = true
		if d := p.Decide(e); d.Action != Allow {
			t.Fatalf("a trial: %+v", d)
		}
	}
	try("a.y", nil, 0)
	try("a.y", nil, 0)
	try("a.y", RateLimitExceeded, 5*time.Second)
	try("a.x", nil, 0) // by the other
	try("a.x", RateLimitExceeded, 5*time.Second)
	clock = clock.Add(4 * time.Second)
	try("a.y", RateLimitExceeded, time.Second)
	clock = clock.Add(time.Second)
	try("a.y", nil, 0)
	try("a.y", RateLimitExceeded, 5*time.Second)

	// A reload goes on counting, a change of the rate begins anew.
	now := p.now
	config.Capabilities[0].Paths = nil
	p = compiled(t, config).Use(p)
	p.now = now
	try("a.y", RateLimitExceeded, 5*time.Second)
	config.Capabilities[0].Rate = "1/10s"
	p = compiled(t, config).Use(p)
	p.now = now
	try("a.y", nil, 0)
	try("a.y", RateLimitExceeded, 10*time.Second)

	// Two endpoints do not share a rate.
	shared := compiled(t, config)
	for range 3 {
		if d := shared.Use(nil).Decide(toolCall("a.y", "")); d.Action != Allow {
			t.Errorf("%+v", d)
		}
	}

	// Steps of the wall's clock are not seen.
	if now := compiled(t, config).now(); !strings.Contains(now.String(), "m=") {
		t.Errorf("the clock of rates is not monotonic: %s", now)
	}
}

func TestAcquire(t *testing.T) {
	p := compiled(t, Config{Capabilities: []Capability{{Name: "one", Tools: []string{"*"}, MaxConcurrent: 2}}})
	acquire := func() (func(), *Decision) {
		e := toolCall("x", "")
		if d := p.Decide(e); d.Action != Allow {
			t.Fatalf("%+v", d)
		}
		return e.Acquire()
	}
	first, _ := acquire()
	acquire()
	p = compiled(t, Config{Capabilities: []Capability{{Name: "one", Tools: []string{"*"}, MaxConcurrent: 2, Rate: "9/1s"}}}).Use(p)
	if _, refused := acquire(); refused == nil || refused.Code != ConcurrencyExceeded || refused.Rule != "one" {
		t.Errorf("a third: %+v", refused)
	}
	first()
	if _, refused := acquire(); refused != nil {
		t.Errorf("after a release: %+v", refused)
	}

	p = compiled(t, Config{Mode: Observe, Capabilities: []Capability{{Name: "one", Tools: []string{"*"}, MaxConcurrent: 1}}})
	if _, refused := acquire(); refused != nil {
		t.Errorf("observed, the first: %+v", refused)
	}
	release, would := acquire()
	if release == nil || would == nil || would.Action != Allow || would.Would != Block || would.Rule != "one" {
		t.Errorf("observed, the second: %+v", would)
	}
}

// What one capability has no rate left for is not made up by the room of another.
func TestRateAndRoom(t *testing.T) {
	p := compiled(t, Config{Capabilities: []Capability{
		{Name: "a", Tools: []string{"*"}, Rate: "1/1h"},
		{Name: "b", Tools: []string{"*"}, MaxConcurrent: 1},
	}})
	call := func() (func(), string) {
		e := toolCall("x", "")
		if d := p.Decide(e); d.Action != Allow {
			return nil, d.Rule
		}
		release, refused := e.Acquire()
		if refused != nil {
			return nil, refused.Rule
		}
		return release, ""
	}
	call() // by a
	release, _ := call()
	if _, by := call(); by != "b" {
		t.Errorf("the third is refused by %q", by)
	}
	release()
	if release, _ = call(); release == nil {
		t.Error("b has room, and the call is refused")
	}
}

func TestMaxResponse(t *testing.T) {
	p := compiled(t, Config{Capabilities: []Capability{
		{Name: "small", Tools: []string{"a.*"}, MaxResponse: 10},
		{Name: "large", Tools: []string{"a.x"}, MaxResponse: 20, Paths: []string{"/workspace"}},
	}})
	for _, tt := range []struct {
		tool, args string
		size       int
		code       *Code
	}{
		{"a.y", ``, 10, nil}, {"a.y", ``, 11, OutputSizeExceeded},
		{"a.x", `{"path":"a"}`, 20, nil}, {"a.x", `{"path":"a"}`, 21, OutputSizeExceeded},
		{"a.x", `{"path":"/etc"}`, 11, OutputSizeExceeded},
		{"gone", ``, 99, nil},
	} {
		e := toolCall(tt.tool, tt.args)
		e.On, e.Answer = OnResponse, json.RawMessage(strings.Repeat("1", tt.size))
		if d := p.Decide(e); d.Code != tt.code {
			t.Errorf("%s %s %d: %+v", tt.tool, tt.args, tt.size, d)
		}
	}
}
