package local

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hutch/aggd/rawjson"
)

// A tool is one row of the table of tools.
type tool struct {
	quick bool // never waits
	run   func(ctx context.Context, w *web, args []byte) (string, error)
}

var tools = map[string]tool{
	"echo":         {quick: true, run: taking(echoArgs{}, echo)},
	"fetch_http":   {run: taking(fetchArgs{paging: paging{MaxLength: 5000}}, fetchHTTP)},
	"grep_http":    {run: taking(grepArgs{ContextLines: 3, MaxMatches: 50, paging: paging{MaxLength: 5000}}, grepHTTP)},
	"http_headers": {run: taking(headersArgs{}, httpHeaders)},
}

// taking returns what a tool does with its arguments; those that are not given
// are as in standard.
func taking[A any](standard A, do func(context.Context, *web, A) (string, error)) func(context.Context, *web, []byte) (string, error) {
	return func(ctx context.Context, w *web, args []byte) (string, error) {
		a := standard
		if err := decode(args, &a); err != nil {
			return "", err
		}
		return do(ctx, w, a)
	}
}

//go:embed tools.json
var toolsJSON []byte

// toolList is the answer to tools/list.
var toolList = func() []byte {
	var line bytes.Buffer
	json.Compact(&line, toolsJSON)
	return line.Bytes()
}()

// decode reads the arguments of a call. Two names that are the same to encoding/json
// are refused: who decided about one of them may not have seen the other.
func decode(args []byte, into any) error {
	if err := rawjson.Distinct(args); errors.Is(err, rawjson.ErrAmbiguous) {
		return err
	}
	if err := json.Unmarshal(args, into); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return fmt.Errorf("argument %s is not of type %s", wrong.Field, wrong.Type)
		}
		return errors.New("the arguments are not an object")
	}
	return nil
}

type echoArgs struct{ Text *string }

func echo(_ context.Context, _ *web, a echoArgs) (string, error) {
	if a.Text == nil {
		return "", errors.New("argument text is missing")
	}
	return *a.Text, nil
}

// paging is what part of a text to show.
type paging struct {
	StartIndex int `json:"start_index"`
	MaxLength  int `json:"max_length"`
}

type fetchArgs struct {
	URL    string
	Format string
	paging
}

func fetchHTTP(ctx context.Context, w *web, a fetchArgs) (string, error) {
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

type grepArgs struct {
	URL          string
	Pattern      string
	ContextLines int `json:"context_lines"`
	MaxMatches   int `json:"max_matches"`
	Raw          bool
	paging
}

func grepHTTP(ctx context.Context, w *web, a grepArgs) (string, error) {
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

type headersArgs struct{ URL, Method string }

func httpHeaders(ctx context.Context, w *web, a headersArgs) (string, error) {
	if a.Method = cmp.Or(strings.ToUpper(a.Method), "HEAD"); a.Method != "HEAD" && a.Method != "GET" {
		return "", fmt.Errorf("method %q is not HEAD or GET", a.Method)
	}
	p, err := w.get(ctx, a.Method, a.URL, false)
	if err != nil {
		return "", err
	}
	return p.headers(), nil
}
