package main

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hutch/fs"
)

// A serverLine is what hutch server ls says of a server, by ToolHive's names.
type serverLine struct {
	Name      string            `json:"name"`
	Package   string            `json:"package,omitempty"` // its source
	URL       string            `json:"url,omitempty"`     // of a remote one
	Transport string            `json:"transport_type,omitempty"`
	State     string            `json:"status"`
	Reason    string            `json:"status_context,omitempty"`
	Made      string            `json:"created_at,omitempty"`
	Since     string            `json:"started_at,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Group     string            `json:"group,omitempty"`
	Tools     []string          `json:"tools,omitempty"`
	Remote    bool              `json:"remote,omitempty"`
	Memory    string            `json:"memory,omitempty"` // of its sandbox
}

// serverForms is the table of how hutch server ls prints.
var serverForms = map[string]func([]serverLine) error{
	"table":      printServers,
	"json":       func(list []serverLine) error { return printJSON(os.Stdout, list) },
	"mcpservers": printForClients,
}

func listServers(_ context.Context, c *tree, f *serverFlags, _ []string) error {
	form, ok := serverForms[f.format]
	if !ok {
		return misused("server", "-format "+fs.QuoteLine(f.format)+": want table, json or mcpservers")
	}
	all, err := servers(c)
	if err != nil {
		return err
	}
	return form(slices.DeleteFunc(all, func(s serverLine) bool { return !f.lists(s) }))
}

// lists says whether a server is one of those that are wanted.
func (f *serverFlags) lists(s serverLine) bool {
	if s.Name == "" || s.State == "stopped" && !f.all || f.group != "" && f.group != s.Group {
		return false
	}
	for k, v := range tableOf(f.labels) {
		if is, ok := s.Labels[k]; !ok || is != v {
			return false
		}
	}
	return true
}

// servers returns all servers. Of one that went meanwhile there is an empty line.
func servers(c *tree) ([]serverLine, error) {
	names, err := folders(c, "servers")
	list := make([]serverLine, len(names))
	turns := make(chan struct{}, asking)
	var all sync.WaitGroup
	for i, name := range names {
		turns <- struct{}{}
		all.Go(func() {
			list[i] = readServer(c, name)
			<-turns
		})
	}
	all.Wait()
	return list, err
}

func readServer(c *tree, name string) serverLine {
	dir := path.Join("servers", name)
	status, err := readFile(c, path.Join(dir, "status"))
	if err != nil {
		return serverLine{}
	}
	state, rest, _ := strings.Cut(status, "\n")
	said := pairs(rest)
	s := serverLine{
		Name: name, State: state, Package: said["source"], Transport: said["transport"], Made: said["made"],
		Group: cmp.Or(said["group"], "default"),
	}
	if words, err := fs.LineWords(said["reason"], -1); err == nil {
		s.Reason = strings.Join(words, " ")
	}
	if s.Remote = strings.Contains(s.Package, "://") && said["vm"] == ""; s.Remote {
		s.URL = s.Package
	}
	if n, _ := strconv.Atoi(said["tools"]); n > 0 {
		s.Since = said["since"]
		s.Tools, _ = things(c, path.Join(dir, "tools"))
	}
	if vm := said["vm"]; vm != "" && state != "stopped" {
		if text, err := readFile(c, path.Join("vm", vm, "status")); err == nil {
			box := pairs(text)
			s.Memory, _ = memoryOf(box["memory"], box["ram"])
		}
	}
	var config struct {
		Labels map[string]string `json:"container_labels"`
	}
	if text, err := readFile(c, path.Join(dir, "config")); err == nil && json.Unmarshal([]byte(text), &config) == nil {
		s.Labels = config.Labels
	}
	return s
}

func printServers(list []serverLine) error {
	t := newTable(false, "NAME", "STATE", "GROUP", "TRANSPORT", "TOOLS", "MEMORY", "SOURCE")
	for _, s := range list {
		last := s.Package
		if s.Reason != "" {
			last = strings.TrimSpace(last + " " + fs.Shorten(s.Reason))
		}
		if err := t.row(s, s.Name, s.State, s.Group, s.Transport, strconv.Itoa(len(s.Tools)), s.Memory, last); err != nil {
			return err
		}
	}
	return t.flush()
}

// printForClients prints what AI clients that start programs have in their files.
func printForClients(list []serverLine) error {
	type program struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	hutch, err := os.Executable()
	if err != nil {
		return err
	}
	var at []string
	if *address != "" {
		at = []string{"-s", *address}
		if file, ok := strings.CutPrefix(*address, "unix!"); ok { // clients have another working folder
			if file, err = filepath.Abs(file); err != nil {
				return err
			}
			at[1] = "unix!" + file
		}
	}
	programs := map[string]program{}
	for _, s := range list {
		programs[s.Name] = program{hutch, append(at[:len(at):len(at)], "mcp-session", "servers/"+s.Name)}
	}
	return printJSON(os.Stdout, map[string]any{"mcpServers": programs})
}
