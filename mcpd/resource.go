package mcpd

import (
	"context"
	"encoding/json"
	"strings"
)

// scheme is that of the URIs under which the guest knows resources.
const scheme = "capsem://"

// planResource plans a resources/read.
func planResource(ctx context.Context, c *call) (step, *Error) {
	server, own, err := c.resourceParam(ctx)
	if err != nil {
		return nil, err
	}
	return c.forward(server, own, pURI), nil
}

// resourceParam returns the server of the resource that the params name, and
// its URI there.
func (c *call) resourceParam(ctx context.Context) (server, own string, err *Error) {
	uri, ok := c.message.params.str(pURI)
	if !ok || uri == "" {
		return "", "", missing("uri")
	}
	c.tool = uri
	return c.resource(ctx, uri)
}

// resource returns the server of a URI and the URI there. One without
// hutch's scheme, as servers put them into their results, is for the one
// server that lists it, or has a template for it.
func (c *call) resource(ctx context.Context, uri string) (server, own string, err *Error) {
	if rest, ok := strings.CutPrefix(uri, scheme); ok {
		server, own, ok = strings.Cut(rest, "/")
		if !ok || server == "" || own == "" {
			return "", "", failure(codeParams, "invalid uri: %s: want capsem://server/uri", uri)
		}
		c.server = ledgerName(server)
		return server, own, c.knows(ctx, server)
	}
	server, err = c.owner(ctx, uri)
	if err != nil {
		return "", "", err
	}
	c.server = ledgerName(server)
	return server, uri, c.knows(ctx, server)
}

// owner returns the one server that has the resource uri.
func (c *call) owner(ctx context.Context, uri string) (string, *Error) {
	cat := c.catalog()
	resources, err := cat.resources.last(ctx, c.session.e)
	if err != nil {
		return "", err
	}
	templates, err := cat.templates.last(ctx, c.session.e)
	if err != nil {
		return "", err
	}
	listed := servers(resources.items, func(own string) bool { return own == uri })
	if len(listed) == 0 {
		listed = servers(templates.items, func(own string) bool { return own == uri || matchTemplate(own, uri) })
	}
	switch len(listed) {
	case 0:
		return "", failure(codeResource, "resource not found: %s", uri)
	case 1:
		return listed[0], nil
	}
	return "", failure(codeParams, "ambiguous uri: %s: %s have it: use capsem://server/uri", uri, strings.Join(listed, " and "))
}

// servers returns the servers that have an item whose own name passes the test.
func servers(items []item, test func(own string) bool) []string {
	var list []string
	for _, it := range items {
		if test(it.Original) && (len(list) == 0 || list[len(list)-1] != it.upstream) {
			list = append(list, it.upstream)
		}
	}
	return list
}

// matchTemplate reports whether uri can be an expansion of the URI template
// (RFC 6570). An expression stands for at least one byte, and for none that
// is '/' unless it says so by an operator or a modifier.
func matchTemplate(template, uri string) bool {
	for {
		open := strings.IndexByte(template, '{')
		if open < 0 {
			return template == uri
		}
		shut := strings.IndexByte(template[open:], '}')
		if shut < 0 || !strings.HasPrefix(uri, template[:open]) {
			return false
		}
		expression := template[open+1 : open+shut]
		uri, template = uri[open:], template[open+shut+1:]
		next := template
		if i := strings.IndexByte(next, '{'); i >= 0 {
			next = next[:i]
		}
		span := len(uri)
		if !strings.ContainsAny(expression, "+#/?&*.;") {
			if i := strings.IndexByte(uri, '/'); i >= 0 {
				span = i
			}
		}
		switch i := strings.Index(uri[min(1, len(uri)):], next); {
		case template == "":
			return len(uri) > 0 && span == len(uri)
		case i < 0 || i+1 > span || len(uri) == 0:
			return false
		case next == template && next != "": // the last literal: it must be at the end
			return strings.HasSuffix(uri, next) && len(uri)-len(next) >= 1 && len(uri)-len(next) <= span
		default:
			uri = uri[i+1:]
		}
	}
}

// planSubscribe plans a resources/subscribe.
func planSubscribe(ctx context.Context, c *call) (step, *Error) {
	server, own, err := c.resourceParam(ctx)
	if err != nil {
		return nil, err
	}
	if len(own) > maxURI {
		return nil, failure(codeParams, "uri of %d bytes: at most %d", len(own), maxURI)
	}
	s, uri := c.session, c.tool
	topic := topic{s.client.Load().key, server, own}
	return func(ctx context.Context) (json.RawMessage, *Error) {
		if !s.e.subs.add(topic, s, uri) {
			return nil, failure(codeBusy, "too many subscriptions: %d", maxTopics)
		}
		result, err := c.forward(server, own, pURI)(ctx)
		if err != nil {
			s.e.subs.remove(topic, s)
		}
		return result, err
	}, nil
}

// planUnsubscribe plans a resources/unsubscribe. The server is told only when
// no other session of the same connection wants the news.
func planUnsubscribe(ctx context.Context, c *call) (step, *Error) {
	server, own, err := c.resourceParam(ctx)
	if err != nil {
		return nil, err
	}
	s := c.session
	topic := topic{s.client.Load().key, server, own}
	return func(ctx context.Context) (json.RawMessage, *Error) {
		if !s.e.subs.remove(topic, s) {
			return json.RawMessage(`{}`), nil
		}
		return c.forward(server, own, pURI)(ctx)
	}, nil
}
