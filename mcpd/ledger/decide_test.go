package ledger

import (
	"errors"
	"os"
	"testing"

	"hutch/fs"
)

// crashed returns the calls that the next Open finds if db were killed now.
func crashed(t *testing.T, path string) []map[string]any {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := temp(t)
	if err := os.WriteFile(copied, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return records(t, all(t, open(t, copied, Options{}), Calls))
}

// A call is durable before it is decided, and a decision before the call ends.
func TestDecide(t *testing.T) {
	path := temp(t)
	db := open(t, path, Options{})
	id, begun, err := db.Begin(bg, Call{Tool: "t", Decision: Pending, TraceID: "4bf9"})
	if err == nil {
		err = begun(bg)
	}
	if err != nil {
		t.Fatal(err)
	}
	is := func(recs []map[string]any, decision string, action any, reason any, outcome string) {
		t.Helper()
		if len(recs) != 1 {
			t.Fatalf("%d records, want 1", len(recs))
		}
		r := recs[0]
		if r["decision"] != decision || r["policy_action"] != action || r["policy_reason"] != reason || r["outcome"] != outcome || r["trace_id"] != "4bf9" {
			t.Errorf("got %v, want %s %v %v %s", r, decision, action, reason, outcome)
		}
	}
	is(crashed(t, path), Pending, nil, nil, Interrupted)
	for _, v := range []Verdict{
		{Decision: "allowed", PolicyAction: "allow", PolicyRule: "default"},
		{Decision: "denied", PolicyAction: "block", PolicyRule: "r", PolicyReason: "no"},
	} {
		decided, err := db.Decide(id, v)
		if err == nil {
			err = decided(bg)
		}
		if err != nil {
			t.Fatal(err)
		}
		reason := any(v.PolicyReason)
		if reason == "" {
			reason = nil
		}
		is(crashed(t, path), v.Decision, v.PolicyAction, reason, Interrupted)
	}
	if _, err := db.Decide(id, Verdict{Decision: "denied", PolicyAction: "block", PolicyReason: "never"}); err != nil {
		t.Fatal(err)
	}
	end1(t, db, id, Outcome{}) // often in the same batch
	is(records(t, all(t, db, Calls)), "denied", "block", "never", OK)
	is(crashed(t, path), "denied", "block", "never", OK)
	if _, err := db.Decide(id, Verdict{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a call that has ended: %v", err)
	}
	if db.held != 0 {
		t.Errorf("%d bytes are held", db.held)
	}
}

// A call that is decided at once is one record, however it falls into batches.
func TestDecideAtOnce(t *testing.T) {
	db := open(t, temp(t), Options{})
	const calls = 500
	for range calls {
		id, _, err := db.Begin(bg, Call{Tool: "t", Decision: Pending})
		if err != nil {
			t.Fatal(err)
		}
		decided, err := db.Decide(id, Verdict{Decision: "allowed"})
		if err != nil {
			t.Fatal(err)
		}
		if id%3 == 0 {
			if err := decided(bg); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.End(id, Outcome{}); err != nil {
			t.Fatal(err)
		}
	}
	list := kept(t, db, Calls)
	if len(list) != calls {
		t.Errorf("%d records, want %d", len(list), calls)
	}
	for _, r := range list {
		if r["decision"] != "allowed" || r["outcome"] != OK {
			t.Fatal(r)
		}
	}
	db.Close()
	db = open(t, db.path, Options{})
	if list := kept(t, db, Calls); len(list) != calls {
		t.Errorf("%d records after Open, want %d", len(list), calls)
	}
}
