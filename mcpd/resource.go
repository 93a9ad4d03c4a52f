package mcpd

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
)

// planResource plans a resources/read.
func planResource(ctx context.Context, c *call) (step, *Error) {
	return c.forward(pURI), c.resourceParam(ctx)
}

// resourceParam finds the server of the resource that the params name, and its
// URI there.
func (c *call) resourceParam(ctx context.Context) *Error {
	uri, ok := c.message.params.str(pURI)
	if !ok || uri == "" {
		return missing("uri")
	}
	return c.resource(ctx, uri)
}

// resource finds the server of a URI and the URI there. One without hutch's
// scheme, as servers put them into their results, is for the one server that
// lists it, or has a template for it.
func (c *call) resource(ctx context.Context, uri string) *Error {
	c.tool = uri
	server, own := "", uri
	if strings.HasPrefix(uri, jsonrpc.Scheme) {
		var ok bool
		if server, own, ok = jsonrpc.SplitURI(uri); !ok || own == "" {
			return failure(jsonrpc.CodeParams, "invalid uri: %s: want %s", uri, jsonrpc.URI("server", "uri"))
		}
	} else {
		var err *Error
		if server, err = c.owner(ctx, uri); err != nil {
			return err
		}
	}
	c.goesTo(server, own)
	return nil
}

// owner returns the one server that has the resource uri: of several, the one whose
// resource an Arrange named so.
func (c *call) owner(ctx context.Context, uri string) (string, *Error) {
	cat := c.catalog()
	resources, err := cat[wire.Resources].last(ctx, c.session.e)
	if err != nil {
		return "", err
	}
	templates, err := cat[wire.Templates].last(ctx, c.session.e)
	if err != nil {
		return "", err
	}
	for _, st := range []*stock{resources, templates} {
		if it := st.index[uri]; it != nil {
			return it.Server, nil
		}
	}
	listed := servers(resources.items, func(own string) bool { return own == uri })
	if len(listed) == 0 {
		listed = servers(templates.items, func(own string) bool { return own == uri || matchTemplate(own, uri) })
	}
	switch len(listed) {
	case 0:
		return "", failure(jsonrpc.CodeResource, "resource not found: %s", uri)
	case 1:
		return listed[0], nil
	}
	return "", failure(jsonrpc.CodeParams, "ambiguous uri: %s: %s have it: use %s", uri, strings.Join(listed, " and "), jsonrpc.URI("server", "uri"))
}

// servers returns the servers that have an item whose own name passes the test.
func servers(items []wire.Item, test func(own string) bool) []string {
	var list []string
	for _, it := range items {
		if test(it.Original) && (len(list) == 0 || list[len(list)-1] != it.Server) {
			list = append(list, it.Server)
		}
	}
	return list
}

// expression is one in a URI template.
var expression = regexp.MustCompile(`\{[^}]*\}`)

// matchTemplate reports whether uri can be an expansion of the URI template
// (RFC 6570). An expression stands for at least one character, and for none that
// is '/' unless it says so by an operator or a modifier.
func matchTemplate(template, uri string) bool {
	head, _, _ := strings.Cut(template, "{")
	if !strings.HasPrefix(uri, head) {
		return false // as most: to compile each would take long
	}
	pattern, at := `(?s)^`, 0
	for _, e := range expression.FindAllStringIndex(template, -1) {
		pattern += regexp.QuoteMeta(template[at:e[0]])
		if strings.ContainsAny(template[e[0]:e[1]], "+#/?&*.;") {
			pattern += `.+`
		} else {
			pattern += `[^/]+`
		}
		at = e[1]
	}
	rest := template[at:]
	ok, err := regexp.MatchString(pattern+regexp.QuoteMeta(rest)+`$`, uri)
	return ok && err == nil && !strings.Contains(rest, "{")
}

// planSubscribe plans a resources/subscribe.
func planSubscribe(ctx context.Context, c *call) (step, *Error) {
	if err := c.resourceParam(ctx); err != nil {
		return nil, err
	}
	if len(c.own) > maxURI {
		return nil, failure(jsonrpc.CodeParams, "uri of %d bytes: at most %d", len(c.own), maxURI)
	}
	if strings.HasPrefix(c.own, wire.TaskScheme) { // by which the aggregator is asked for a task's
		return nil, failure(jsonrpc.CodeParams, "uri begins with %s, which resources of servers cannot", wire.TaskScheme)
	}
	return func(ctx context.Context) (json.RawMessage, *Error) {
		subs, topic := &c.session.e.subs, c.topic()
		fresh, ok := subs.add(topic, c.subscriber(), c.tool)
		if !ok {
			return nil, failure(jsonrpc.CodeBusy, "too many subscriptions: %d", maxTopics)
		}
		result, err := c.forward(pURI)(ctx)
		if err != nil && fresh && subs.remove(topic, c.subscriber()) {
			c.session.e.unwanted(topic) // who wanted it as well may have gone, and left it to this one
		}
		return result, err
	}, nil
}

// planUnsubscribe plans a resources/unsubscribe. The server is told only when
// no other session of the same connection wants the news.
func planUnsubscribe(ctx context.Context, c *call) (step, *Error) {
	return func(ctx context.Context) (json.RawMessage, *Error) {
		if !c.session.e.subs.remove(c.topic(), c.session) {
			return json.RawMessage(`{}`), nil
		}
		defer c.session.e.restore(c.topic())
		return c.forward(pURI)(ctx)
	}, c.resourceParam(ctx)
}

func (c *call) topic() topic { return topic{c.client.key, c.server, c.own} }
