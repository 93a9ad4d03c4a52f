package hostmcp

import (
	"strings"
	"testing"
)

// A use is how a tool is called.
type use struct {
	tool string
	args args
	want string // in the result as JSON, or where the error begins
}

// good has every tool called once, in this order, with success.
var good = []use{
	{"version", nil, `"connected":true`},
	{"create", args{"name": "dev", "cpuCount": 1, "undo": "execs"}, `"state":"running"`},
	{"list", nil, `"id":"dev"`},
	{"info", args{"id": "dev"}, `"config":{"cpus":"1","undo":"execs"}`},
	{"exec", args{"id": "dev", "command": "seq 100; echo err >&2", "limit": 10}, `"truncated":true`},
	{"output", args{"id": "dev", "exec": "1", "offset": 285}, `"content":"99\n100\n"`},
	{"spawn", args{"id": "dev", "command": "echo up; sleep 1000"}, `"exec":"d2"`},
	{"signal", args{"id": "dev", "exec": "d2"}, `"signal":"TERM"`},
	{"run", args{"command": "echo $A", "env": args{"A": "b"}}, `"stdout":"b\n"`},
	{"write_file", args{"id": "dev", "path": "f", "content": "text"}, `"bytes":4`},
	{"read_file", args{"id": "dev", "path": "f"}, `"content":"text"`},
	{"exec", args{"id": "dev", "command": "rm f"}, `"exec":"2"`},
	{"undos", args{"id": "dev"}, `"undo":"exec-2"`},
	{"undo", args{"id": "dev", "undo": "exec-2"}, `; undo undo-1 takes that back"`},
	{"read_file", args{"id": "dev", "path": "f"}, `"content":"text"`},
	{"snapshot", args{"id": "dev", "name": "before"}, `"name":"before"`},
	{"snapshots", args{"id": "dev"}, `"name":"before"`},
	{"write_file", args{"id": "dev", "path": "g", "content": ""}, `"bytes":0`},
	{"diff", args{"id": "dev", "from": "before"}, `"lines":["added work/g"]`},
	{"revert", args{"id": "dev", "name": "before"}, `"state":"running"`},
	{"fork", args{"id": "dev", "name": "copy"}, `"state":"stopped"`},
	{"fork_live", args{"id": "dev", "name": "live"}, `"state":"running"`},
	{"vm_logs", args{"id": "dev", "grep": "x", "tail": 1}, `"security_logs":""`},
	{"service_logs", args{"tail": 1}, `"name":"service"`},
	{"host_logs", args{"name": "service", "maxBytes": 10}, `"name":"service"`},
	{"inspect_schema", nil, `CREATE TABLE`},
	{"inspect", args{"id": "dev", "sql": "SELECT 41 + 1 AS n"}, `"rows":[{"n":42}]`},
	{"timeline", args{"id": "dev", "layers": []string{"exec", "vm"}, "limit": 3}, `"count":3`},
	{"panics", args{"since": "1h"}, `"count":0`},
	{"triage", nil, `"rows":[`},
	{"triage", args{"id": "dev", "since": "1h"}, `"rows":[`},
	{"mcp_add", args{"id": "web", "url": "http://127.0.0.1:1/", "bearerToken": "verysecret"}, `"id":"web"`},
	{"mcp_connectors", nil, `"settings":{"bearer_token":"***","url":"http://127.0.0.1:1/"}`},
	{"mcp_delete", args{"id": "web"}, `"file":"profiles/default.d/web.json"`},
	{"policy_test", args{"id": "dev", "event": args{"name": "github__x"}}, `"decision":"allow"`},
	{"asks", args{"wait": 0}, `"asks":[]`},
	{"suspend", args{"id": "dev"}, `"state":"suspended"`},
	{"resume", args{"name": "dev"}, `"state":"running"`},
	{"stop", args{"id": "dev"}, `"state":"stopped"`},
	{"create", nil, `"persistent":false`},
	{"persist", args{"id": "2", "name": "kept"}, `"id":"kept"`},
	{"delete", args{"id": "kept"}, `"deleted":["kept"]`},
	{"purge", args{"all": true}, `"deleted":["copy","dev","live"]`},
}

// bad has every tool fail.
var bad = []use{
	{"version", args{"x": 1}, `invalid argument: version takes no "x": it takes nothing`},
	{"create", args{"name": "../x"}, `invalid argument: "../x" is not the name of a sandbox`},
	{"list", args{"id": "x"}, "invalid argument: list takes no"},
	{"info", args{"id": "none"}, `file does not exist: no vm "none"`},
	{"exec", args{"id": "none", "command": "true"}, `file does not exist: no vm "none"`},
	{"output", args{"id": "none", "exec": "1"}, `file does not exist: no vm "none"`},
	{"spawn", args{"id": "none", "command": "true"}, `file does not exist: no vm "none"`},
	{"signal", args{"id": "none", "exec": "d1"}, `file does not exist: no vm "none"`},
	{"run", args{"command": 1}, `invalid argument: run: "command" is to be a string`},
	{"write_file", args{"id": "none", "path": "f", "content": ""}, `file does not exist: no vm "none"`},
	{"read_file", args{"id": "none", "path": "f"}, `file does not exist: no vm "none"`},
	{"snapshot", args{"id": "none"}, `file does not exist: no vm "none"`},
	{"snapshots", args{"id": "none"}, `file does not exist: no vm "none"`},
	{"diff", args{"id": "none", "from": "a"}, `file does not exist: no vm "none"`},
	{"revert", args{"id": "none", "name": "a"}, `file does not exist: no vm "none"`},
	{"undos", args{"id": "none"}, `file does not exist: no vm "none"`},
	{"undo", args{"id": "none", "undo": "1"}, `file does not exist: no vm "none"`},
	{"fork", args{"id": "none", "name": "a"}, `file does not exist: no vm "none"`},
	{"fork_live", args{"id": "none", "name": "a"}, `file does not exist: no vm "none"`},
	{"vm_logs", args{"id": "none"}, `file does not exist: no vm "none"`},
	{"service_logs", args{"tail": -1}, `invalid argument: service_logs: "tail" is to be a whole number`},
	{"host_logs", args{"name": "tray"}, "invalid argument: "},
	{"inspect_schema", args{"id": "none"}, "invalid argument: inspect_schema takes no"},
	{"inspect", args{"id": "none", "sql": "SELECT 1"}, `file does not exist: no vm "none"`},
	{"timeline", args{"id": "none"}, `file does not exist: no vm "none"`},
	{"panics", args{"since": "ever"}, "invalid argument: "},
	{"triage", args{"id": "../x"}, "invalid argument: "},
	{"triage", args{"limit": 1000}, `invalid argument: triage: "limit" is to be a whole number from 0 to 200`},
	{"mcp_add", args{"id": "a__b"}, "invalid argument: "},
	{"mcp_add", args{"id": "a", "profile": "nosuch", "url": "http://127.0.0.1:1/"}, "file does not exist: "},
	{"mcp_connectors", args{"profile": "none"}, "file does not exist: "},
	{"mcp_delete", args{"id": "none"}, "file does not exist: "},
	{"policy_test", args{"id": "none", "event": args{}}, `file does not exist: no vm "none"`},
	{"asks", args{"wait": 1e9}, `invalid argument: asks: "wait" is to be a whole number`},
	{"answer", args{"id": 1, "answer": "allow"}, "file does not exist: ask 1"},
	{"answer", args{"id": "../1", "answer": "allow"}, "invalid argument: "},
	{"answer", args{"id": 1, "answer": "perhaps"}, "invalid argument: answer: \"answer\" is to be one of allow, "},
	{"suspend", args{"id": "none"}, `file does not exist: no vm "none"`},
	{"resume", args{"name": "none"}, `file does not exist: no vm "none"`},
	{"stop", args{"id": "none"}, `file does not exist: no vm "none"`},
	{"persist", args{"id": "none", "name": "a"}, `file does not exist: no vm "none"`},
	{"delete", args{"id": "none"}, `file does not exist: no vm "none"`},
	{"purge", args{"all": "yes"}, `invalid argument: purge: "all" is to be true or false`},
}

// TestEveryTool calls each tool well and badly. The results fit the schemas,
// which call checks. Answer needs somebody who asks: TestAnswer has that.
func TestEveryTool(t *testing.T) {
	c := newSite(t).connect()
	seen := map[string]int{}
	for _, u := range bad {
		c.fails(u.tool, u.args, u.want)
		seen[u.tool] |= 1
	}
	for _, u := range good {
		got := plain(t, c.call(u.tool, u.args))
		if !strings.Contains(got, u.want) {
			t.Errorf("%s %v: %s, want %s", u.tool, u.args, got, u.want)
		}
		if strings.Contains(got, "verysecret") {
			t.Errorf("%s tells a secret: %s", u.tool, got)
		}
		seen[u.tool] |= 2
	}
	for _, tool := range tools() {
		if seen[tool.name] != 3 && tool.name != "answer" {
			t.Errorf("%s was not called well and badly", tool.name)
		}
	}
}
