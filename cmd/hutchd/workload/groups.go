package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
	"hutch/profiles/runconfig"
)

// Default is the group that is always there.
const Default = runconfig.DefaultGroup

// maxGroups is how many groups there can be.
const maxGroups = 256

// groupDir is the folder of a group.
func (w *Workloads) groupDir(name string) string { return filepath.Join(w.groupsDir, name) }

// loadGroups makes the groups whose folders are there, and the one that always is.
func (w *Workloads) loadGroups() error {
	if err := os.MkdirAll(filepath.Join(w.groupDir(Default), "log"), 0o700); err != nil {
		return err
	}
	names, err := kept(w.groupsDir)
	for _, name := range names {
		g := w.newGroup(name)
		if text, err := os.ReadFile(filepath.Join(g.dir, groupFile)); err == nil {
			g.read(string(text))
		}
		w.groups[name] = g
	}
	return err
}

// MakeGroup makes a group called name, without members.
func (w *Workloads) MakeGroup(name string) error {
	if err := fs.CheckWord("group", name); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return errEnding
	case w.groups[name] != nil:
		return fmt.Errorf("%w: group %s", fs.ErrExist, name)
	case len(w.groups) >= maxGroups:
		return fmt.Errorf("%w: there are %d groups, and cannot be more", fs.ErrNoSpace, maxGroups)
	}
	if err := os.MkdirAll(filepath.Join(w.groupDir(name), "log"), 0o700); err != nil {
		return err
	}
	w.groups[name] = w.newGroup(name)
	return nil
}

// Group returns the group called name.
func (w *Workloads) Group(name string) (*Group, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := w.groups[name]; g != nil {
		return g, nil
	}
	return nil, fmt.Errorf("%w: group %s", fs.ErrNotExist, name)
}

// Groups returns the groups, sorted by name.
func (w *Workloads) Groups() []*Group {
	w.mu.Lock()
	defer w.mu.Unlock()
	return byName(w.groups)
}

// Gateways returns those of the servers and of the groups.
func (w *Workloads) Gateways() (list []*gateway.Gateway) {
	for _, s := range w.Servers() {
		list = append(list, s.Gateway)
	}
	for _, g := range w.Groups() {
		list = append(list, g.Gateway)
	}
	return list
}

// RemoveGroup has the members of a group be those of the default group, and removes it
// with its records.
func (w *Workloads) RemoveGroup(ctx context.Context, name string) error {
	if name == Default {
		return fmt.Errorf("%w: the group %s is always there", fs.ErrPermission, Default)
	}
	g, err := w.Group(name)
	if err != nil {
		return err
	}
	for {
		members, err := w.unmake(g)
		if err != nil {
			return err
		}
		if len(members) == 0 {
			break
		}
		for _, s := range members {
			if err := s.join(ctx, Default); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	g.Gateway.Close()
	g.mu.Lock()
	g.endExchanges()
	g.mu.Unlock()
	return os.RemoveAll(leaving(g.Gateway))
}

// unmake returns the members of a group; if there are none, there is no such group any
// more, and another one of its name can be made.
func (w *Workloads) unmake(g *Group) ([]*Server, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	members := w.members(g.Name)
	if len(members) > 0 {
		return members, nil
	}
	if w.groups[g.Name] != g {
		return nil, fmt.Errorf("%w: group %s", fs.ErrNotExist, g.Name)
	}
	if err := os.Rename(g.dir, leaving(g.Gateway)); err != nil {
		return nil, err
	}
	delete(w.groups, g.Name)
	return nil, nil
}

// members returns the servers of a group, sorted by name. Its caller holds mu.
func (w *Workloads) members(group string) []*Server {
	return slices.DeleteFunc(byName(w.servers), func(s *Server) bool { return s.group() != group })
}

// regroup gives groups that are served the members that they have now, as those are. It
// does not wait for that.
func (w *Workloads) regroup(names ...string) {
	for _, name := range names {
		if g, err := w.Group(name); err == nil {
			g.renew()
		}
	}
}

// checkGroup refuses a group that is not there. Its caller holds mu.
func (w *Workloads) checkGroup(name string) error {
	if name != "" && w.groups[name] == nil {
		return fmt.Errorf("%w: group %s is not there: make it first, by mkdir groups/%[2]s", fs.ErrInvalid, name)
	}
	return nil
}

// group returns the name of the group that the server is in; "": none.
func (s *Server) group() string {
	switch c := s.Config(); {
	case c == nil || c.Server().Group == "" && !c.Server().NoGroup:
		return Default
	default:
		return c.Server().Group
	}
}

// join has the server be in a group, or in none where that is "", also while it runs.
func (s *Server) join(ctx context.Context, group string) error {
	return s.do(ctx, func(context.Context) error {
		return s.make(func(c *runconfig.Config) (*runconfig.Config, error) { return c.InGroup(group) })
	})
}
