package aggd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// decodeServers reads an array of definitions. One that cannot be read stands as
// a server with that fault, and costs the others nothing.
func decodeServers(array []byte) []definition {
	var defs []definition
	for _, raw := range rawjson.Elements(array) {
		var d wire.Server
		err := json.Unmarshal(raw, &d)
		if err != nil {
			err = fmt.Errorf("its definition does not parse: %w", err)
			d = wire.Server{Name: text(raw, "name"), Enabled: true}
		} else if d.Fault != "" {
			err = errors.New(d.Fault)
		}
		defs = append(defs, definition{Server: d, fault: err})
	}
	return defs
}

// A set is the servers in force.
type set struct {
	byName map[string]*server
	order  []*server // as defined, with those that have a fault
}

// find returns the server that a request names.
func (s *set) find(name string) (*server, error) {
	found := s.byName[name]
	if found == nil || jsonrpc.CheckServer(name) != nil {
		return nil, fmt.Errorf("server not found: %s", name)
	}
	return found, nil
}

// define puts a new set in force. A server that needs no other connection than
// it has keeps it; the connections of the others are ended meanwhile. The error
// says which definitions have a fault.
func (a *aggregator) define(defs []definition) error {
	old := a.set.Load()
	next := &set{byName: make(map[string]*server)}
	kept := make(map[*server]bool)
	var faults []string
	for i, def := range defs {
		s := old.byName[def.Name]
		switch {
		case next.byName[def.Name] != nil && jsonrpc.CheckServer(def.Name) == nil:
			s = &server{agg: a, state: wire.Failed, fault: fmt.Errorf("another server is named %s", def.Name)}
			s.def.Store(&def)
		case s != nil && s.def.Load().sameConnection(def):
			s.redefine(def)
			next.byName[def.Name] = s
		default:
			s = newServer(a, def)
			next.byName[def.Name] = s
		}
		kept[s] = true
		next.order = append(next.order, s)
		if s.fault != nil && s.state == wire.Failed {
			faults = append(faults, fmt.Sprintf("server %d, %.60q: %v", i+1, def.Name, s.fault))
		}
	}
	a.set.Store(next)
	for _, s := range old.order {
		if !kept[s] {
			a.tasks.Go(s.close)
		}
	}
	if faults == nil {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}
