package hostmcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"hutch/fs"
)

const (
	scheme      = "hutch"
	maxResource = 1 << 20 // bytes of a file that one read gives
)

// rootFiles are the files that resources/list tells of.
var rootFiles = []struct{ path, doc string }{
	{"README", "how to drive the tree"},
	{"status", "a line for each sandbox: name, state, driver, image"},
	{"version", "version of the service"},
	{"drivers", "what can run sandboxes here"},
	{"metrics", "counters, as Prometheus text"},
	{"err", "the last error any client got"},
	{"log/service", "the log of the service"},
	{"vm", "the sandboxes"},
	{"images", "the images"},
	{"asks", "what waits for a decision"},
}

// templates are those of resources/templates/list. The last fits every file.
var templates = []struct{ uri, name, doc string }{
	{"hutch:///vm/{name}/status", "status", "state and use of a sandbox"},
	{"hutch:///vm/{name}/config", "config", "config of a sandbox"},
	{"hutch:///vm/{name}/err", "err", "the last error about a sandbox"},
	{"hutch:///vm/{name}/log/{log}", "log", "a log of a sandbox: serial, process, agg, mcp, net, asks, exec, file, security, snapshots"},
	{"hutch:///vm/{name}/policy/rules", "rules", "what decides what the agent in a sandbox may"},
	{"hutch:///vm/{name}/mcp/servers", "servers", "the MCP servers of a sandbox and their state"},
	{"hutch:///vm/{name}/work/{+path}", "work", "a file or folder of a sandbox's workspace"},
	{"hutch:///vm/{name}/root/{+path}", "root", "a file or folder of a running sandbox"},
	{"hutch:///vm/{name}/snap/{snapshot}/info", "snapshot", "a snapshot of a sandbox"},
	{"hutch:///images/{image}/info", "image", "an image"},
	{"hutch:///{+path}", "file", "any file or folder of the tree that ends; ?offset=N reads on in a long one"},
}

// A refusal is a file that is not read as a resource, and what is instead.
type refusal struct{ pattern, why string }

// unread are files that are not opened: they hold secrets, or to open them
// does something.
var unread = []refusal{
	{"profiles/*", "it may hold secrets: mcp_connectors shows what it says without them"},
	{"profiles/*/*", "it may hold secrets: mcp_connectors shows what it says without them"},
	{"vm/*/env/*", "it may be a secret: exec uses it"},
	{"vm/*/cons", "it is a console: exec runs commands"},
	{"vm/*/log/cons", "it is a console: exec runs commands"},
	{"vm/*/pack", "it is an archive of the whole sandbox: hutch pack writes one"},
	{"secrets/*", "it is a secret"},
}

// endless says what to read in the place of files that block at their end.
var endless = []refusal{
	{"events", "log/events has the same and ends; subscribe to hear of more"},
	{"log/follow", "log/service ends"},
	{"asks/next", "the tool asks tells what waits"},
	{"*/*/events", "log/events beside it has the same and ends; subscribe to hear of more"},
	{"vm/*/mcp/calls", "log/mcp beside it has the same and ends"},
	{"vm/*/exec/*/*", "log/stdout and log/stderr beside it end; the tool output tells what a command printed"},
}

func reasonFor(list []refusal, name string) string {
	for _, r := range list {
		if ok, _ := path.Match(r.pattern, name); ok {
			return r.why
		}
	}
	return ""
}

// addResources has a server serve the tree's files.
func (h *host) addResources(s *server.MCPServer) {
	for _, f := range rootFiles {
		s.AddResource(mcp.NewResource(scheme+":///"+f.path, f.path, mcp.WithResourceDescription(f.doc), mcp.WithMIMEType(plainType)), h.read)
	}
	for _, t := range templates {
		s.AddResourceTemplate(mcp.NewResourceTemplate(t.uri, t.name, mcp.WithTemplateDescription(t.doc)), h.read)
	}
}

const plainType = "text/plain"

// fileOf returns the file that a URI names, and where to begin in it.
func fileOf(uri string) (name string, off int64, err error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != scheme || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return "", 0, fmt.Errorf("%w: %s is not %s:///PATH", fs.ErrInvalid, fs.QuoteLine(uri), scheme)
	}
	if s := u.Query().Get("offset"); s != "" {
		if off, err = strconv.ParseInt(s, 10, 64); err != nil || off < 0 {
			return "", 0, fmt.Errorf("%w: offset %s: want a byte count", fs.ErrInvalid, fs.QuoteLine(s))
		}
	}
	return strings.TrimPrefix(path.Clean(u.Path), "/"), off, nil
}

// read serves resources/read.
func (h *host) read(ctx context.Context, q mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	name, off, err := fileOf(q.Params.URI)
	if err != nil {
		return nil, toldPlainly(err)
	}
	if why := reasonFor(unread, name); why != "" && name != "profiles/err" && name != "profiles/show" {
		return nil, toldPlainly(fmt.Errorf("%w: %s is not a resource: %s", fs.ErrPermission, name, why))
	}
	t, err := h.service.dial(ctx)
	if err != nil {
		return nil, toldPlainly(err)
	}
	defer t.close()
	r, err := t.resource(ctx, q.Params.URI, name, off)
	return []mcp.ResourceContents{r}, toldPlainly(err)
}

// toldPlainly is an error with the text that users are told.
func toldPlainly(err error) error {
	if err == nil {
		return nil
	}
	return &fs.Told{Text: errorText(err), Err: err}
}

// resource reads a file, or lists a folder.
func (t *tree) resource(ctx context.Context, uri, name string, off int64) (mcp.ResourceContents, error) {
	st, err := t.stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if st.Mode.IsDir() {
		entries, err := t.list(ctx, name)
		var b strings.Builder
		for _, e := range entries {
			b.WriteString(fs.QuoteLine(e.Name))
			if e.Mode.IsDir() {
				b.WriteString("/")
			}
			b.WriteString("\n")
		}
		return mcp.TextResourceContents{URI: uri, MIMEType: plainType, Text: b.String()}, err
	}
	part, more, err := t.beginning(ctx, name, off)
	if err != nil {
		return nil, err
	}
	whole := len(part)
	if more {
		whole = wholeRunes(part)
	}
	var meta map[string]any
	if !utf8.Valid(part[:whole]) {
		whole = len(part)
	}
	if more {
		next := url.URL{Scheme: scheme, Path: "/" + name, RawQuery: fmt.Sprintf("offset=%d", off+int64(whole))}
		meta = map[string]any{"hutch/next": scheme + "://" + next.EscapedPath() + "?" + next.RawQuery, "hutch/size": st.Size}
	}
	if part = part[:whole]; utf8.Valid(part) {
		return mcp.TextResourceContents{Meta: meta, URI: uri, MIMEType: mimeOf(name), Text: string(part)}, nil
	}
	return mcp.BlobResourceContents{Meta: meta, URI: uri, MIMEType: "application/octet-stream", Blob: base64.StdEncoding.EncodeToString(part)}, nil
}

func mimeOf(name string) string {
	if strings.HasSuffix(name, ".json") {
		return "application/json"
	}
	return plainType
}

// beginning reads a file from off on, as much as a read gives, and says whether
// there is more.
func (t *tree) beginning(ctx context.Context, name string, off int64) (part []byte, more bool, err error) {
	f, err := t.open(ctx, name, os.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return nil, false, err
	}
	defer f.close()
	f.off = off
	part, err = f.part(ctx, maxResource+1)
	if again(err) {
		err = fmt.Errorf("%w: %s does not end: %s", fs.ErrUnsupported, name, reasonFor(endless, name))
	}
	return part[:min(len(part), maxResource)], len(part) > maxResource, err
}
