package mcpd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"hutch/aggd/wire"
	"hutch/fs/need"
)

// A direct is a client of an MCP server without hutch between.
type direct struct {
	t    *testing.T
	in   io.Writer
	out  *bufio.Reader
	last int
}

func newDirect(t *testing.T, command string, args ...string) *direct {
	cmd := exec.Command(command, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	d := &direct{t: t, in: in, out: bufio.NewReader(out)}
	d.do("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return d
}

// do makes a request and returns its result, or its error.
func (d *direct) do(method, params string) json.RawMessage {
	d.t.Helper()
	d.last++
	fmt.Fprintf(d.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", d.last, method, params)
	for {
		line, err := d.out.ReadBytes('\n')
		if err != nil {
			d.t.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID            json.RawMessage
			Method        string
			Result, Error json.RawMessage
		}
		if json.Unmarshal(line, &m) != nil || m.Method != "" || string(m.ID) != fmt.Sprint(d.last) {
			continue
		}
		if m.Error != nil {
			return m.Error
		}
		return m.Result
	}
}

// TestEverything calls all that the reference server has, directly and
// through hutch: the answers are equal but for the names.
func TestEverything(t *testing.T) {
	t.Parallel()
	nodejs, program := need.Everything(t)
	d := newDirect(t, nodejs, program, "stdio")
	st := newSite(t, nil, []wire.Server{{Name: "all", Program: wire.Program{Command: nodejs, Args: []string{program, "stdio"}}, Enabled: true, ConnectTimeout: wire.Duration(patience)}})
	g := st.hello(t, 1, `{}`)
	same := func(what string, a, b json.RawMessage) {
		t.Helper()
		a, b = need.Clock.ReplaceAll(a, nil), need.Clock.ReplaceAll(b, nil)
		if !reflect.DeepEqual(anyOf(t, a), anyOf(t, b)) {
			t.Errorf("%s: directly\n%.2000s\nthrough hutch\n%.2000s", what, a, b)
		}
	}
	for _, list := range []struct{ method, field, member, prefix string }{
		{"tools/list", "tools", "name", "all__"}, {"prompts/list", "prompts", "name", "all__"},
		{"resources/list", "resources", "uri", "capsem://all/"}, {"resources/templates/list", "resourceTemplates", "uriTemplate", "capsem://all/"},
	} {
		theirs := byName(t, d.do(list.method, `{}`), list.field, list.member, list.prefix)
		ours := byName(t, g.ok(list.method, `{}`), list.field, list.member, "")
		for name, item := range theirs {
			if ours[name] == nil {
				t.Errorf("%s lacks %s", list.method, name)
				continue
			}
			same(name, item, ours[name])
			own := strings.TrimPrefix(name, list.prefix)
			switch list.method {
			case "tools/list":
				if own == "get-env" || strings.HasPrefix(own, "toggle-") { // say what only one of the two can
					continue
				}
				args := sample(t, item)
				same(own, d.do("tools/call", `{"name":"`+own+`","arguments":`+args+`}`), g.any("tools/call", `{"name":"`+name+`","arguments":`+args+`}`))
			case "prompts/list":
				args := promptSample(t, item)
				same(own, d.do("prompts/get", `{"name":"`+own+`","arguments":`+args+`}`), g.any("prompts/get", `{"name":"`+name+`","arguments":`+args+`}`))
			case "resources/list":
				same(own, d.do("resources/read", `{"uri":"`+own+`"}`), g.any("resources/read", `{"uri":"`+name+`"}`))
			}
		}
	}
}

// any is do that returns the error object where there is no result.
func (g *guest) any(method, params string) json.RawMessage {
	m := g.do(method, params)
	if m.Error != nil {
		b, _ := json.Marshal(map[string]any{"code": m.Error.Code, "message": m.Error.Message})
		return b
	}
	return m.Result
}

func anyOf(t *testing.T, data []byte) any {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %.200s", err, data)
	}
	return v
}

// byName returns the items of a list by their names, which get a prefix.
func byName(t *testing.T, result json.RawMessage, field, member, prefix string) map[string]json.RawMessage {
	var lists map[string][]map[string]json.RawMessage
	if err := json.Unmarshal(result, &lists); err != nil {
		t.Fatal(err)
	}
	items := map[string]json.RawMessage{}
	for _, item := range lists[field] {
		var name string
		json.Unmarshal(item[member], &name)
		item[member], _ = json.Marshal(prefix + name)
		items[prefix+name], _ = json.Marshal(item)
	}
	return items
}

// sample returns arguments that fit a tool's schema and keep it short.
func sample(t *testing.T, tool json.RawMessage) string {
	var v struct {
		InputSchema struct {
			Properties map[string]struct {
				Type    string
				Enum    []json.RawMessage
				Default json.RawMessage
			}
			Required []string
		}
	}
	if err := json.Unmarshal(tool, &v); err != nil {
		t.Fatal(err)
	}
	args := map[string]any{}
	for name, p := range v.InputSchema.Properties {
		switch {
		case len(p.Enum) > 0:
			args[name] = p.Enum[0]
		case p.Type == "number" || p.Type == "integer":
			args[name] = 1
		case p.Type == "string" && p.Default == nil:
			args[name] = "x"
		}
	}
	b, _ := json.Marshal(args)
	return string(b)
}

func promptSample(t *testing.T, prompt json.RawMessage) string {
	var v struct{ Arguments []struct{ Name string } }
	if err := json.Unmarshal(prompt, &v); err != nil {
		t.Fatal(err)
	}
	args := map[string]string{}
	for _, a := range v.Arguments {
		args[a.Name] = "1"
	}
	b, _ := json.Marshal(args)
	return string(b)
}
