package vmcp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// offers makes the items that "server.tool" words are, each with a definition.
func offers(words ...string) (items []wire.Item) {
	for _, word := range words {
		server, own, _ := strings.Cut(word, ".")
		raw := fmt.Sprintf(`{"name":%s, "description" : "old","n":9007199254740993}`, rawjson.Quote(own))
		items = append(items, wire.Item{Name: jsonrpc.Name(server, own), Original: own, Server: server, Raw: []byte(raw)})
	}
	return items
}

// told returns the items as NAME=SERVER.TOOL, in order.
func told(items []wire.Item) string {
	var list []string
	for _, it := range items {
		list = append(list, fmt.Sprintf("%s=%s.%s", it.Name, it.Server, it.Original))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func parsed(t testing.TB, text string) *Config {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestArrange(t *testing.T) {
	long := strings.Repeat("x", 60)
	for _, tt := range []struct {
		name, config string
		list         *wire.List
		items        []wire.Item
		want, said   string
	}{
		{"nothing said", ``, wire.Tools, offers("a.x", "b.x"), "a_x=a.x b_x=b.x", ""},
		{"a prefix of one's own", `{aggregation: {conflictResolutionConfig: {prefixFormat: "{workload}."}}}`, wire.Tools, offers("a.x", "b.y.z"), "a.x=a.x b.y.z=b.y.z", ""},
		{"the same after prefixing", ``, wire.Tools, offers("a_b.c", "a.b_c"), "a_b_c_0c1d18f5=a_b.c a_b_c_662f0bbb=a.b_c",
			`the name "a_b_c" is claimed by "b_c" of a and "c" of a_b: told apart by sums`},
		{"a name too long", ``, wire.Tools, offers("server." + long), "server_" + strings.Repeat("x", 48) + "_f8773b53=server." + long, ""},
		{"other characters", ``, wire.Tools, offers("a.b/c", "a.b_c"), "a_b_c=a.b_c a_b_c_bd4f6d7a=a.b/c", ""},

		{"priority", `{aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [b, a]}}}`, wire.Tools,
			offers("a.x", "b.x", "a.y", "c.z"), "x=b.x y=a.y z=c.z", `"x" of a: left out: b comes first with the name "x"`},
		{"priority of others", `{aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [b]}}}`, wire.Tools,
			offers("a.x", "c.x", "d.y"), "a_x=a.x c_x=c.x y=d.y", ""},

		{"manual", `{aggregation: {conflictResolution: manual, tools: [{workload: a, overrides: {x: {name: ax}}}]}}`, wire.Tools,
			offers("a.x", "b.x", "c.y"), "ax=a.x x=b.x y=c.y", ""},
		{"manual, not resolved", `{aggregation: {conflictResolution: manual}}`, wire.Tools,
			offers("a.x", "b.x", "c.y"), "y=c.y", `the name "x" is claimed by "x" of a and "x" of b: left out: say by overrides who has it`},
		{"manual, collides again", `{aggregation: {conflictResolution: manual, tools: [{workload: a, overrides: {x: {name: y}}}]}}`, wire.Tools,
			offers("a.x", "b.x", "c.y"), "x=b.x", `the name "y" is claimed by "x" of a and "y" of c: left out: say by overrides who has it`},

		{"filter", `{aggregation: {tools: [{workload: a, filter: [x, zz], overrides: {z: {name: zz}, y: {description: d}}}]}}`, wire.Tools,
			offers("a.x", "a.y", "a.z", "b.x"), "a_x=a.x a_zz=a.z b_x=b.x", ""},
		{"filter of nothing", `{aggregation: {tools: [{workload: a, filter: [q], overrides: {w: {name: v}}}]}}`, wire.Tools,
			offers("a.x", "b.x"), "b_x=b.x", "line 1: aggregation.tools.0.filter.0: a has no tool \"q\"\nline 1: aggregation.tools.0.overrides.w: a has no such tool"},
		{"steps of nothing", `{aggregation: {tools: [{workload: a, overrides: {x: {name: z}}}]}, compositeTools: [{name: c, description: d, steps: [{id: s, tool: a.z}, {id: t, tool: a.q}, {id: u, tool: c.q}, {id: v, type: forEach, collection: "[]", step: {tool: b.x.y}}]}]}`, wire.Tools,
			offers("a.x", "b.x"), "a_z=a.x b_x=b.x", "line 1: compositeTools.0.steps.1.tool: a has no tool \"q\"\nline 1: compositeTools.0.steps.3.step.tool: b has no tool \"x.y\""},
		{"what is hidden takes no name", `{aggregation: {conflictResolution: manual, tools: [{workload: a, excludeAll: true}]}}`, wire.Tools,
			offers("a.x", "b.x"), "x=b.x", ""},
		{"deny", `{aggregation: {defaultToolVisibility: deny, tools: [{workload: a}]}}`, wire.Tools, offers("a.x", "b.x"), "a_x=a.x", ""},
		{"exclude all", `{aggregation: {excludeAllTools: true, tools: [{workload: a}]}}`, wire.Tools, offers("a.x", "b.x"), "", ""},
		{"a composite tool's name", `{compositeTools: [{name: a_x, description: d, steps: [{id: s, tool: a.x}]}]}`, wire.Tools, offers("a.x", "a.y"), "a_x_8b86bced=a.x a_y=a.y",
			`the name "a_x" is claimed by "x" of a, and has gone to another: told apart by sums`},

		{"prompts", ``, wire.Prompts, offers("a.x", "b.x"), "a_x=a.x b_x=b.x", ""},
		{"prompts, priority", `{aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [b, a]}}}`, wire.Prompts,
			offers("a.x", "b.x", "c.y"), "c_y=c.y x=b.x", `"x" of a: left out: b comes first with the name "x"`},
		{"prompts are not filtered", `{aggregation: {excludeAllTools: true}}`, wire.Prompts, offers("a.x"), "a_x=a.x", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := parsed(t, tt.config)
			got, said := c.Arrange(tt.list, tt.items)
			if told(got) != tt.want || strings.Join(said, "\n") != tt.said {
				t.Errorf("got  %s\nwant %s\nsaid %s\nwant %s", told(got), tt.want, strings.Join(said, "\n"), tt.said)
			}
		})
	}
}

// TestNames has steps call tools by the names that clients have, and those that clients
// do not know of by the ones that they would have.
func TestNames(t *testing.T) {
	const tool = `compositeTools: [{name: c, description: d, steps: [{id: s, tool: t}]}], `
	for _, tt := range []struct{ config, items, want string }{
		{``, "a.x", ""},
		{tool + `name: n`, "a.x b.y", "a_x=a.x b_y=b.y"},
		{tool + `aggregation: {excludeAllTools: true}`, "a.x b.y", "a_x=a.x b_y=b.y"},
		{tool + `aggregation: {defaultToolVisibility: deny, tools: [{workload: a, filter: [x], overrides: {x: {name: z}, y: {name: w}}}, {workload: b, excludeAll: true}]}`,
			"a.x a.y b.x c.x", "a_w=a.y a_z=a.x b_x=b.x c_x=c.x"},
		{tool + `aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [a, b]}, tools: [{workload: a, filter: [y]}]}`,
			"a.x a.y b.x b.y", "x=b.x y=a.y"}, // x is hidden at the one that comes first
		{tool + `aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [a, b]}, tools: [{workload: a, filter: [y]}, {workload: b, filter: [y]}]}`,
			"a.x b.x", "x=a.x"},
	} {
		c := parsed(t, "{"+tt.config+"}")
		var items []wire.Item
		for name, it := range c.Names(offers(strings.Fields(tt.items)...)) {
			it.Name = name
			items = append(items, it)
		}
		if got := told(items); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.config, got, tt.want)
		}
	}
}

func TestResources(t *testing.T) {
	item := func(server, uri string) wire.Item {
		return wire.Item{Name: jsonrpc.URI(server, uri), Original: uri, Server: server}
	}
	items := []wire.Item{item("a", "x:1"), item("b", "x:1"), item("b", "x:2"), item("a", "capsem://b/x:1")}
	for _, tt := range []struct{ config, want string }{
		{``, "capsem://a/capsem://b/x:1=a.capsem://b/x:1 capsem://b/x:1=b.x:1 x:1=a.x:1 x:2=b.x:2"},
		{`{aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [b]}}}`,
			"capsem://a/capsem://b/x:1=a.capsem://b/x:1 capsem://a/x:1=a.x:1 x:1=b.x:1 x:2=b.x:2"},
	} {
		got, _ := parsed(t, tt.config).Arrange(wire.Resources, items)
		if told(got) != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.config, told(got), tt.want)
		}
	}
}

func TestOverride(t *testing.T) {
	for _, tt := range []struct{ raw, override, want string }{
		{`{"name":"x", "description" : "old","n":9007199254740993}`, `{description: "new <&> é"}`, `{"name":"x", "description" : "new <&> é","n":9007199254740993}`},
		{`{"name":"x"}`, `{description: new}`, `{"description":"new","name":"x"}`},
		{`{}`, `{description: new}`, `{"description":"new"}`},
		{`{"name":"x","annotations":{"title":"T", "own":1.50,"readOnlyHint":true},"z":[1.0]}`, `{annotations: {readOnlyHint: false, title: U}}`,
			`{"name":"x","annotations":{"title":"U","readOnlyHint":false,"own":1.50},"z":[1.0]}`},
		{`{"name":"x"}`, `{annotations: {openWorldHint: true}}`, `{"annotations":{"openWorldHint":true},"name":"x"}`},
	} {
		c := parsed(t, `{aggregation: {tools: [{workload: a, overrides: {x: `+tt.override+`}}]}}`)
		got, _ := c.Arrange(wire.Tools, []wire.Item{{Original: "x", Server: "a", Raw: []byte(tt.raw)}})
		if string(got[0].Raw) != tt.want {
			t.Errorf("%s with %s:\n%s, want\n%s", tt.raw, tt.override, got[0].Raw, tt.want)
		}
	}
}

func TestAlone(t *testing.T) {
	c := Alone("s", []string{"y", "fs.read", "q"}, map[string]Override{"x": {Name: "q"}})
	got, said := c.Arrange(wire.Tools, offers("s.x", "s.y", "s.z", "s.fs.read"))
	if told(got) != "fs.read=s.fs.read q=s.x y=s.y" || said != nil {
		t.Errorf("%s, said %q", told(got), said)
	}
	if got, _ = c.Arrange(wire.Prompts, offers("s.a b")); told(got) != "a b=s.a b" {
		t.Errorf("prompts: %s", told(got))
	}
	if own := c.Tool("s", "q"); own != "x" {
		t.Errorf("q is %s", own)
	}
}

// configs are those that the properties are tried with: what every way does.
var configs = []string{
	``,
	`{aggregation: {conflictResolutionConfig: {prefixFormat: "_"}}}`,
	`{aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [a_a, b]}}}`,
	`{aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [a]}, tools: [{workload: a, overrides: {a: {name: b}, b: {name: a}}}]}}`,
	`{aggregation: {conflictResolution: manual, tools: [{workload: b, filter: [a], overrides: {a_a: {name: a}}}]}}`,
	`{aggregation: {tools: [{workload: a, overrides: {a: {name: a_a}}}]}, compositeTools: [{name: a_a, description: d, steps: [{id: s, tool: a.x}]}]}`,
}

// some names from few letters, so that they collide in every way.
func random(r *rand.Rand) (items []wire.Item) {
	servers := []string{"a", "b", "a_a", "a_b", "b_"}
	for range r.IntN(40) {
		tool := ""
		for range 1 + r.IntN(4) {
			tool += []string{"a", "b", "_", "/", strings.Repeat("a", 30)}[r.IntN(5)]
		}
		items = append(items, offers(servers[r.IntN(len(servers))]+"."+tool)...)
	}
	return items
}

// TestProperties has any order of arrival give the same names, each of which leads to
// one tool, and each tool have one at most, that clients take.
func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 600 {
		c, items := parsed(t, configs[i%len(configs)]), random(r)
		for _, list := range wire.Lists {
			for i := range items {
				if items[i].Name = jsonrpc.Name(items[i].Server, items[i].Original); list.Own != "name" {
					items[i].Name = jsonrpc.URI(items[i].Server, items[i].Original)
				}
			}
			before := fmt.Sprint(items)
			got, said := c.Arrange(list, items)
			if fmt.Sprint(items) != before {
				t.Fatal("what was given has changed")
			}
			r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
			again, saidAgain := c.Arrange(list, items)
			if told(got) != told(again) || !slices.Equal(said, saidAgain) {
				t.Fatalf("%s: the order counts:\n%s %q\n%s %q", configs[i%len(configs)], told(got), said, told(again), saidAgain)
			}
			checkNames(t, list, got)
		}
	}
}

func checkNames(t *testing.T, list *wire.List, items []wire.Item) {
	t.Helper()
	names, tools := make(map[string]bool), make(map[string]bool)
	for _, it := range items {
		tool := it.Server + "." + it.Original
		if names[it.Name] || tools[tool] {
			t.Errorf("%s is there twice: %.500s", it.Name, told(items))
		}
		names[it.Name], tools[tool] = true, true
		if list.Own == "name" && !safeName.MatchString(it.Name) {
			t.Errorf("%s: the name %q", tool, it.Name)
		}
	}
}

// Names that a server makes to have another's are told apart as well.
func TestCrafted(t *testing.T) {
	c := parsed(t, ``)
	items := offers("a_b.c", "a.b_c")
	for range len(sums) {
		got, _ := c.Arrange(wire.Tools, items)
		checkNames(t, wire.Tools, got)
		for _, it := range got {
			if it.Server == "a_b" {
				items = append(items, offers("a."+strings.TrimPrefix(it.Name, "a_"))...)
			}
		}
	}
	if got, said := c.Arrange(wire.Tools, items); strings.Contains(told(got), "=a_b.c") || len(said) == 0 {
		t.Errorf("%s, said %q", told(got), said)
	}
}

func BenchmarkArrange(b *testing.B) {
	c := parsed(b, `{aggregation: {tools: [{workload: s1, filter: [t1, t2], overrides: {t1: {name: u, description: d}}}]}}`)
	var items []wire.Item
	for s := range 20 {
		for tool := range 50 {
			items = append(items, offers(fmt.Sprintf("s%d.t%d", s, tool))...)
		}
	}
	for b.Loop() {
		c.Arrange(wire.Tools, items)
	}
}

// In a VM names tell servers apart; what not every client takes becomes another, and
// resources keep their URIs.
func TestSafe(t *testing.T) {
	long := strings.Repeat("n", 70)
	items := offers("one.echo", "one.a b", "one."+long)
	for i := range items {
		items[i].Name = jsonrpc.Name(items[i].Server, items[i].Original)
	}
	items = append(items, wire.Item{Server: "one", Original: "fs.read", Name: "one__fs.read"})
	got, said := Safe().Arrange(wire.Tools, items)
	names := told(got)
	for _, want := range []string{"one__echo", "one__a_b_", "one__fs.read", "one__nnn"} {
		if !strings.Contains(names, want) || len(said) > 0 || strings.Contains(names, "one__"+long) {
			t.Errorf("no %s in %s, %q", want, names, said)
		}
	}
	uri := wire.Item{Server: "one", Original: "file:///x", Name: "capsem://one/file:///x"}
	if got, _ := Safe().Arrange(wire.Resources, []wire.Item{uri}); len(got) != 1 || got[0].Name != uri.Name {
		t.Errorf("%+v", got)
	}
}
