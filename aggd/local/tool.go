package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hutch/aggd/rawjson"
)

// A tool is one row of the table of tools.
type tool struct {
	name        string
	title       string
	description string
	schema      string // the properties of its arguments
	required    string
	quick       bool // never waits
	run         func(ctx context.Context, w *web, args []byte) (string, error)
}

const pagingSchema = `
	"start_index": {"type": "integer", "minimum": 0, "default": 0, "description": "Byte of the text to start at"},
	"max_length": {"type": "integer", "minimum": 1, "default": 5000, "description": "The most bytes of text to return"}`

const urlSchema = `"url": {"type": "string", "description": "http or https URL"},`

var table = []tool{
	{
		name:        "echo",
		title:       "Echo",
		description: "Return the text as it is.",
		schema:      `"text": {"type": "string", "description": "Text to return"}`,
		required:    `"text"`,
		quick:       true,
		run:         echo,
	}, {
		name:  "fetch_http",
		title: "Fetch a page",
		description: "Fetch a URL by GET and return its text: as markdown, as the plain text of its content, or raw. " +
			"Long pages are read in parts by start_index and max_length.",
		schema: urlSchema + `
	"format": {"type": "string", "enum": ["markdown", "content", "raw"], "default": "markdown", "description": "How to show HTML; raw also shows binary types"},` + pagingSchema,
		required: `"url"`,
		run:      fetchHTTP,
	}, {
		name:  "grep_http",
		title: "Search a page",
		description: "Fetch a URL by GET and return the lines that match a regular expression (RE2 syntax, case-insensitive), " +
			"marked by >>>, with lines around them.",
		schema: urlSchema + `
	"pattern": {"type": "string", "description": "Regular expression"},
	"context_lines": {"type": "integer", "minimum": 0, "maximum": 100, "default": 3, "description": "Lines to show before and after each match"},
	"max_matches": {"type": "integer", "minimum": 1, "maximum": 10000, "default": 50, "description": "The most matching lines to show"},
	"raw": {"type": "boolean", "default": false, "description": "Search the source rather than the text shown"},` + pagingSchema,
		required: `"url", "pattern"`,
		run:      grepHTTP,
	}, {
		name:        "http_headers",
		title:       "Response headers",
		description: "Request a URL and return the status and the headers of the response.",
		schema: urlSchema + `
	"method": {"type": "string", "enum": ["HEAD", "GET"], "default": "HEAD", "description": "Method of the request"}`,
		required: `"url"`,
		run:      httpHeaders,
	},
}

// toolList is the answer to tools/list.
var toolList = listTools()

func listTools() []byte {
	var rows []string
	for _, t := range table {
		rows = append(rows, fmt.Sprintf(
			`{"name":%s,"title":%s,"description":%s,"inputSchema":{"type":"object","properties":{%s},"required":[%s]},`+
				`"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":%t}}`,
			rawjson.Quote(t.name), rawjson.Quote(t.title), rawjson.Quote(t.description), strings.NewReplacer("\n", "", "\t", "").Replace(t.schema), t.required, !t.quick))
	}
	return []byte(`{"tools":[` + strings.Join(rows, ",") + `]}`)
}

// decode reads the arguments of a call.
func decode(args []byte, into any) error {
	if err := json.Unmarshal(args, into); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return fmt.Errorf("argument %s is not of type %s", wrong.Field, wrong.Type)
		}
		return errors.New("the arguments are not an object")
	}
	return nil
}

func echo(_ context.Context, _ *web, args []byte) (string, error) {
	var a struct{ Text *string }
	if err := decode(args, &a); err != nil {
		return "", err
	}
	if a.Text == nil {
		return "", errors.New("argument text is missing")
	}
	return *a.Text, nil
}

// paging is what part of a text to show.
type paging struct {
	StartIndex int  `json:"start_index"`
	MaxLength  *int `json:"max_length"`
}

// or returns an argument, or its default where it was left out.
func or(argument *int, otherwise int) int {
	if argument == nil {
		return otherwise
	}
	return *argument
}

func fetchHTTP(ctx context.Context, w *web, args []byte) (string, error) {
	var a struct {
		URL    string
		Format string
		paging
	}
	if err := decode(args, &a); err != nil {
		return "", err
	}
	if a.Format = cmp.Or(a.Format, "markdown"); !slices.Contains([]string{"markdown", "content", "raw"}, a.Format) {
		return "", fmt.Errorf("unknown format %q: markdown, content or raw", a.Format)
	}
	if err := a.check(); err != nil {
		return "", err
	}
	p, err := w.get(ctx, "GET", a.URL, true)
	if err != nil {
		return "", err
	}
	text, err := p.text(ctx, a.Format)
	if err != nil {
		return "", err
	}
	return p.show(text, a.paging), p.fault()
}

func grepHTTP(ctx context.Context, w *web, args []byte) (string, error) {
	var a struct {
		URL          string
		Pattern      string
		ContextLines *int `json:"context_lines"`
		MaxMatches   *int `json:"max_matches"`
		Raw          bool
		paging
	}
	if err := decode(args, &a); err != nil {
		return "", err
	}
	s, err := newSearch(a.Pattern, a.ContextLines, a.MaxMatches)
	if err != nil {
		return "", err
	}
	if err := a.check(); err != nil {
		return "", err
	}
	p, err := w.get(ctx, "GET", a.URL, true)
	if err != nil {
		return "", err
	}
	format := "markdown"
	if a.Raw {
		format = "raw"
	}
	text, err := p.text(ctx, format)
	if err != nil {
		return "", err
	}
	found, count := s.run(text)
	p.note("Pattern: " + a.Pattern)
	p.note("Matches: " + count)
	return p.show(found, a.paging), p.fault()
}

func httpHeaders(ctx context.Context, w *web, args []byte) (string, error) {
	var a struct{ URL, Method string }
	if err := decode(args, &a); err != nil {
		return "", err
	}
	if a.Method = cmp.Or(strings.ToUpper(a.Method), "HEAD"); a.Method != "HEAD" && a.Method != "GET" {
		return "", fmt.Errorf("method %q is not HEAD or GET", a.Method)
	}
	p, err := w.get(ctx, a.Method, a.URL, false)
	if err != nil {
		return "", err
	}
	return p.headers(), nil
}
