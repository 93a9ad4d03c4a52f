package policy

import "testing"

func TestHTTP(t *testing.T) {
	p, err := New(Config{Default: Block, Rules: []Rule{
		{ID: "r.get", On: OnHTTP, If: `http.host == "a.example" && http.method == "GET" && http.path.startsWith("/x/")`, Decision: Allow, Priority: 1},
		{ID: "r.ports", On: OnHTTP, If: `http.port > 1000 || http.scheme == "https" && vm.name == "dev"`, Decision: Ask, Priority: 2, Reason: "odd"},
		{ID: "r.rest", On: OnHTTP, If: `http.host == "a.example"`, Decision: Block, Priority: 3},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		e    Event
		want Decision
	}{
		{Event{Host: "a.example", Port: 80, Method: "GET", Path: "/x/y", Scheme: "http"}, Decision{Action: Allow, Rule: "r.get"}},
		{Event{Host: "a.example", Port: 8080, Method: "POST", Path: "/x/y", Scheme: "http"}, Decision{Action: Ask, Rule: "r.ports"}},
		{Event{VM: "dev", Host: "b.example", Port: 443, Method: "CONNECT", Scheme: "https"}, Decision{Action: Ask, Rule: "r.ports"}},
		{Event{Host: "a.example", Port: 80, Method: "POST", Path: "/x/y", Scheme: "http"}, Decision{Action: Block, Rule: "r.rest"}},
		// What network.allow has is allowed, whatever the default is for other events.
		{Event{Host: "b.example", Port: 80, Method: "POST", Path: "/x/y", Scheme: "http"}, Decision{Action: Allow, Rule: "network.allow"}},
	} {
		test.e.On = OnHTTP
		if d := p.Decide(&test.e); d.Action != test.want.Action || d.Rule != test.want.Rule {
			t.Errorf("%+v: %+v", test.e, d)
		}
	}
	if !p.About(OnHTTP) || p.About(OnFile) {
		t.Error("about the wrong events")
	}
	if p, err = New(Config{Default: Block}); err != nil || p.About(OnHTTP) {
		t.Errorf("nothing is said of http: %v", err)
	}
}
