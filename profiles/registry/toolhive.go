package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hutch/profiles/runconfig"
)

// An extension is what ToolHive adds to a server, in the same words in a
// server.json and in the files of its own form.
type extension struct {
	Tier        string          `json:"tier"`
	Status      string          `json:"status"`
	Tools       []string        `json:"tools"`
	Tags        []string        `json:"tags"`
	Args        []string        `json:"args"`
	Permissions json.RawMessage `json:"permissions"`
	Provenance  *Provenance     `json:"provenance"`
	OAuth       *OAuth          `json:"oauth_config"`
	Env         []variableJSON  `json:"env_vars"`
	Definitions []struct {
		Name string `json:"name"`
	} `json:"tool_definitions"`
}

// A variableJSON is an input by ToolHive's names.
type variableJSON struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Required    bool     `json:"required"`
	Default     string   `json:"default"`
	Secret      bool     `json:"secret"`
	Choices     []string `json:"choices"`
}

// A toolhiveServer is a server in a file of ToolHive's own form: one with an image, or a
// remote one.
type toolhiveServer struct {
	extension
	Name          string         `json:"name"`
	Title         string         `json:"title"`
	Description   string         `json:"description"`
	Transport     string         `json:"transport"`
	RepositoryURL string         `json:"repository_url"`
	Image         string         `json:"image"`
	TargetPort    int            `json:"target_port"`
	URL           string         `json:"url"`
	Headers       []variableJSON `json:"headers"`
}

// readToolhive returns the entry of a server in ToolHive's form, whose name is the
// key that it stands under.
func readToolhive(key string, text []byte) (*Entry, error) {
	var s toolhiveServer
	if err := json.Unmarshal(text, &s); err != nil {
		return named(key, plain(err))
	}
	if s.Name != "" && s.Name != key {
		return named(key, fmt.Errorf("it calls itself %.80q", s.Name))
	}
	transport, err := transportOf(s.Transport)
	if err != nil {
		return named(key, err)
	}
	e := &Entry{Name: key, Title: s.Title, Description: s.Description, Transport: transport, Repository: s.RepositoryURL}
	switch {
	case (s.Image == "") == (s.URL == ""):
		return named(key, fmt.Errorf("it has to have an image or a url, and not both"))
	case s.URL != "" && hostOf(s.URL) == "":
		return named(key, fmt.Errorf("%.100q is no URL like https://host/path", s.URL))
	case s.URL != "":
		e.Run, e.Headers = s.URL, variablesOf(s.Headers)
	default:
		e.Run = s.Image
		if err := e.listensOn(s.TargetPort); err != nil {
			return named(key, err)
		}
	}
	e.add(&s.extension)
	return e, nil
}

// listensOn sets the URL of a server that listens on a port in its sandbox.
func (e *Entry) listensOn(port int) error {
	switch {
	case port < 0 || port > 65535:
		return fmt.Errorf("target_port %d is no port", port)
	case port == 0 || e.Transport == runconfig.Stdio:
	case e.Transport == runconfig.SSE:
		e.URL = fmt.Sprintf("http://127.0.0.1:%d/sse", port)
	default:
		e.URL = fmt.Sprintf("http://127.0.0.1:%d/mcp", port)
	}
	return nil
}

// extend adds what ToolHive says of the server by the name key: of a package's
// identifier, or a URL. It is alone in most files, under whatever name.
func (e *Entry) extend(text []byte, key string) error {
	if text == nil {
		return nil
	}
	var of map[string]json.RawMessage
	if err := json.Unmarshal(text, &of); err != nil {
		return plain(err)
	}
	own := of[key]
	if own == nil && len(of) == 1 {
		for _, own = range of {
		}
	}
	if own == nil {
		return nil
	}
	var x extension
	if err := json.Unmarshal(own, &x); err != nil {
		return plain(err)
	}
	e.add(&x)
	return nil
}

// add adds an extension to what is said already.
func (e *Entry) add(x *extension) {
	e.Tier, e.Tags, e.Tools = x.Tier, x.Tags, x.Tools
	if e.Status == "" {
		e.Status = strings.ToLower(x.Status)
	}
	for _, d := range x.Definitions {
		if len(e.Tools) <= maxList && d.Name != "" && !slices.Contains(e.Tools, d.Name) {
			e.Tools = append(e.Tools, d.Name)
		}
	}
	e.Permissions, e.Provenance, e.OAuth = x.Permissions, x.Provenance, x.OAuth
	if string(e.Permissions) == "null" {
		e.Permissions = nil
	}
	if e.Remote() && len(x.Env) > 0 {
		e.Notes = append(e.Notes, "its env_vars are left out: a remote server has no environment")
		x.Env = nil
	}
	e.Env = append(e.Env, variablesOf(x.Env)...)
	if len(e.Args) == 0 && !e.Remote() {
		for _, word := range x.Args {
			e.Args = append(e.Args, Argument{Input: Input{Default: word}})
		}
	}
}

func variablesOf(list []variableJSON) []Input {
	var all []Input
	for _, v := range list {
		all = append(all, Input{
			Name: v.Name, Description: v.Description, Default: v.Default,
			Required: v.Required, Secret: v.Secret, Choices: v.Choices,
		})
	}
	return all
}
